"""Links between source and target pieces by the fast_align model (Dyer et al., 2013), counted by type."""

import json
from array import array
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, save_npz
from thot.alignment import FastAlignModel, SymmetrizationHeuristic, SymmetrizedAligner

from raretokens.alignment.job import Job
from raretokens.files import whole, write_text
from raretokens.subword.streams import Bitext, read_meta

ITERATIONS = 5  # of expectation-maximisation, fast_align's default
Sentence = tuple[str, ...]


def align(job: Job, tokens: Path, into: Path) -> None:
    """Write links.npz, the link counts by type of the training text, and meta.json, how they were made."""
    pairs = list(sentences(Bitext(tokens, "train"), job.pairs))
    counts = count(pairs, read_meta(tokens)["vocabulary"])
    with whole(into / "links.npz") as part, open(part, "wb") as file:
        save_npz(file, counts)
    meta = {
        "model": "fast_align",
        "symmetrisation": "grow-diag-final-and",
        "iterations": ITERATIONS,
        "sil-thot": version("sil-thot"),
        "pairs": len(pairs),
        "links": int(counts.sum()),
        "linked_types": int((counts.sum(1) > 0).sum()),
    }
    write_text(into / "meta.json", json.dumps(meta, indent=1) + "\n")
    print(f"align: {meta['links']:,} links in {len(pairs):,} pairs")


def sentences(bitext: Bitext, most: int | None = None) -> Iterator[tuple[Sentence, Sentence]]:
    """Pairs of sentences as pieces (their ids as strings), without the end marks; empty sides are left out.

    most: so many of the pairs, evenly spaced; None for all.
    """
    name = cache(str)  # one string a type, not one a token: a sixth of the memory
    chosen = min(most or len(bitext), len(bitext))
    for number in (place * len(bitext) // chosen for place in range(chosen)):
        source, target = (tuple(map(name, side[:-1].tolist())) for side in bitext.pair(number))
        if source and target:
            yield source, target


def train(pairs: list[tuple[Sentence, Sentence]]) -> SymmetrizedAligner:
    """Both directions with variational Bayes (fast_align -d -o -v), symmetrised by grow-diag-final-and; deterministic."""
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


def links(aligner: SymmetrizedAligner, pairs: list[tuple[Sentence, Sentence]]) -> Iterator[list[tuple[int, int]]]:
    """Linked positions (source, target), from 0, of each pair."""
    for source, target in pairs:
        _, matrix = aligner.get_best_alignment(source, target)
        yield [(i, j) for i in range(len(source)) for j in range(len(target)) if matrix[i, j]]


def count(pairs: list[tuple[Sentence, Sentence]], vocabulary: int) -> csr_matrix:
    """N x N, int64: how often source type i is linked to target type j in the training text (AGPS section 4.1.2)."""
    rows, columns = array("i"), array("i")
    for (source, target), linked in zip(pairs, links(train(pairs), pairs), strict=True):
        rows.extend(int(source[i]) for i, _ in linked)
        columns.extend(int(target[j]) for _, j in linked)
    ones = np.ones(len(rows), np.int64)
    return csr_matrix(
        (ones, (np.frombuffer(rows, np.int32), np.frombuffer(columns, np.int32))), shape=(vocabulary, vocabulary)
    )
