"""The fast_align model of sil-thot: the known answer of our own, and what it is measured beside.

    OMP_NUM_THREADS=1 python benchmarks/sil_thot.py TOKENS PAIRS LINKS

Writes the links of PAIRS evenly spaced sentence pairs of the token files in the folder TOKENS to LINKS (.npy, int32: number of
the pair, source position, target position, from 0). With more threads its sums depend on how they happen to meet.
"""

import sys
from pathlib import Path

import numpy as np
from thot.alignment import FastAlignModel, SymmetrizationHeuristic, SymmetrizedAligner

from raretokens.alignment.fast_align import ITERATIONS
from raretokens.alignment.text import Text
from raretokens.tokenization.token_files import Bitext

Sentence = tuple[str, ...]


def sentences(text: Text) -> list[tuple[Sentence, Sentence]]:
    """Pieces by their ids as strings."""
    both = []
    for block in text.blocks:
        sides = (np.split(text.ids_of(side, block), np.cumsum(text.lengths[block, side])[:-1]) for side in (0, 1))
        both += [tuple(tuple(map(str, ids.tolist())) for ids in pair) for pair in zip(*sides, strict=True)]
    return both


def train(pairs: list[tuple[Sentence, Sentence]]) -> SymmetrizedAligner:
    """Both directions with variational Bayes (fast_align -d -o -v), symmetrised by grow-diag-final-and."""
    directions = []
    for forward in (True, False):
        model = FastAlignModel()
        model.variational_bayes = True
        for source, target in pairs:
            model.add_sentence_pair(*((source, target) if forward else (target, source)))
        model.start_training()
        for _ in range(ITERATIONS):
            model.train()
        model.end_training()
        directions.append(model)
    aligner = SymmetrizedAligner(*directions)
    aligner.heuristic = SymmetrizationHeuristic.GROW_DIAG_FINAL_AND
    return aligner


def links(pairs: list[tuple[Sentence, Sentence]]) -> np.ndarray:
    """int32, links x 3: number of the pair, source and target position."""
    aligner, found = train(pairs), []
    for number, (source, target) in enumerate(pairs):
        i, j = np.nonzero(aligner.get_best_alignment(source, target)[1].to_numpy())
        found.append(np.stack([np.full(len(i), number), i, j], 1).astype(np.int32))
    return np.concatenate(found)


if __name__ == "__main__":
    tokens, most, into = sys.argv[1:]
    np.save(into, links(sentences(Text(Bitext(Path(tokens), "train"), int(most)))))
