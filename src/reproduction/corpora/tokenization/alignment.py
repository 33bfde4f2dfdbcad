"""Align the words of the training sentences with fast_align (Dyer et al., 2013), for AlignSim.

The implementation is sil-thot. The model is trained in both directions on `alignments.<name>.max_pairs` evenly spaced sentence
pairs (default: all). The trained models then link all sentence pairs, symmetrised by grow-diag-final-and (Koehn et al., 2005).
The library's sums depend on the order of its threads, so links are reproducible only with OMP_NUM_THREADS=1.
"""

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
from scipy.sparse import csr_matrix, save_npz
from thot.alignment import FastAlignModel, SymmetrizationHeuristic, SymmetrizedAligner

from raretokens.errors import UserError
from raretokens.files import atomic_write, write_text
from reproduction.corpora.tokenization.settings import AlignJob
from reproduction.corpora.tokenization.token_files import Bitext, read_meta

ITERATIONS = 5  # fast_align's default
LONGEST = 1024  # maximum tokens of a sentence: the library's limit in training, which also bounds the alignment matrix
BATCH = 10_000  # sentence pairs to link at a time

PROGRAM = 0.2e9  # bytes of the program itself
TOKEN = 2  # bytes per token of the memory-mapped token file
COOCCURRENCE = 50  # bytes per pair of types that share a sentence pair, for one trained model and one in training


class SentencePairs:
    """Sentence pairs of a token file that can be aligned, with 1 to LONGEST tokens on each side, not counting </s>.

    words() returns token ids as strings, because the library expects strings.
    """

    def __init__(self, bitext: Bitext, vocabulary: int) -> None:
        self.bitext, self.vocabulary = bitext, vocabulary
        self.names = np.array([str(token) for token in range(vocabulary)], object)
        lengths = bitext.lengths - 1
        empty, long = (lengths == 0).any(1), (lengths > LONGEST).any(1)
        self.usable, self.empty, self.long = ~(empty | long), int(empty.sum()), int((long & ~empty).sum())
        self.tokens = int(lengths[self.usable].sum())  # tokens of both sides together

    def numbers(self, most: int | None = None) -> np.ndarray:
        """Return the indices of the usable pairs among at most `most` evenly spaced pairs of the token file."""
        chosen = min(most or len(self.bitext), len(self.bitext))
        spaced = np.arange(chosen) * len(self.bitext) // max(chosen, 1)
        return spaced[self.usable[spaced]]

    def ids(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        source, target = self.bitext.pair(number)
        return source[:-1], target[:-1]

    def words(self, number: int) -> tuple[list[str], list[str]]:
        source, target = self.ids(number)
        return self.names[source].tolist(), self.names[target].tolist()


def align(job: AlignJob, tokens: Path, into: Path) -> None:
    """Write links.npz (link counts of token types in the training text) and meta.json (settings and statistics)."""
    pairs = SentencePairs(Bitext(tokens, "train"), read_meta(tokens)["vocabulary"])
    counts = count_links(pairs, pairs.numbers(job.max_pairs), into)
    with atomic_write(into / "links.npz") as part, open(part, "wb") as file:
        save_npz(file, counts)
    meta = {
        "model": "fast_align",
        "symmetrisation": "grow-diag-final-and",
        "iterations": ITERATIONS,
        "sil-thot": version("sil-thot"),
        "pairs": int(pairs.usable.sum()),
        "left_out": {"empty": pairs.empty, f"longer than {LONGEST} pieces": pairs.long},
        "links": int(counts.sum()),
        "linked_types": int((counts.sum(1) > 0).sum()),
    }
    write_text(into / "meta.json", json.dumps(meta, indent=1) + "\n")
    left_out = f"; left out: {pairs.empty:,} with an empty side, {pairs.long:,} longer than {LONGEST:,} tokens"
    print(f"align: {meta['links']:,} links in {meta['pairs']:,} pairs{left_out * bool(pairs.empty + pairs.long)}")


def count_links(pairs: SentencePairs, training: np.ndarray, scratch: Path) -> csr_matrix:
    """Count how often source type i is linked to target type j in all usable pairs (AGPS section 4.1.2).

    Args:
        training: Indices of the pairs that the models are trained on.
        scratch: Folder for a temporary copy of these pairs as text.
    Returns:
        Link counts, N x N, int64.
    """
    shape = pairs.vocabulary, pairs.vocabulary
    counts = csr_matrix(shape, dtype=np.int64)
    if not len(training):
        return counts
    check_memory(expected_memory(len(training), pairs.tokens * len(training) / pairs.usable.sum(), pairs.vocabulary))
    for batch in find_links(pairs, train(pairs, training, scratch)):
        links = np.concatenate([ids for ids, _ in batch], axis=1)
        counts += csr_matrix((np.ones(links.shape[1], np.int64), tuple(links)), shape)
    return counts


def train(pairs: SentencePairs, training: np.ndarray, scratch: Path) -> SymmetrizedAligner:
    """Train both directions with variational Bayes (fast_align -d -o -v).

    The sentences are passed in files, which the library reads in each iteration instead of keeping them in memory.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=scratch) as folder:
        files = [Path(folder) / side for side in ("source", "target")]
        with files[0].open("w") as source, files[1].open("w") as target:
            for number in training:
                for words, file in zip(pairs.words(number), (source, target), strict=True):
                    file.write(" ".join(words) + "\n")
        models = [FastAlignModel(), FastAlignModel()]
        for direction, (model, sides) in enumerate(zip(models, (files, files[::-1]), strict=True), 1):
            model.variational_bayes = True
            model.read_sentence_pairs(*map(str, sides))
            model.start_training()
            for iteration in range(1, ITERATIONS + 1):
                print(f"align  direction {direction} of 2, iteration {iteration} of {ITERATIONS}", flush=True)
                model.train()
            model.end_training()
    aligner = SymmetrizedAligner(*models)
    aligner.heuristic = SymmetrizationHeuristic.GROW_DIAG_FINAL_AND
    return aligner


def find_links(pairs: SentencePairs, aligner: SymmetrizedAligner) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
    """Yield batches of the links of each usable pair: token ids and positions, each 2 x links, source first."""
    numbers = pairs.numbers()
    for start in range(0, len(numbers), BATCH):
        batch = numbers[start : start + BATCH]
        sources, targets = zip(*map(pairs.words, batch), strict=True)
        matrices = [matrix.to_numpy() for _, matrix in aligner.get_best_alignments(sources, targets)]
        positions = [np.stack(np.nonzero(matrix)) for matrix in matrices]
        yield [
            (np.stack([ids[side][where[side]] for side in (0, 1)]), where)
            for ids, where in zip(map(pairs.ids, batch), positions, strict=True)
        ]
        print(f"align  links  {(start + len(batch)) / len(numbers):.0%}", flush=True)


def expected_cooccurrences(pairs: float, tokens: float, types: float) -> float:
    """Estimate how many pairs of a source type and a target type share a sentence pair.

    With x = 0.13 (position pairs / types^2)^0.75, the expected share of all pairs of types is x / (1 + x). The estimate was
    0.5 to 1.3 times the actual count in 16 texts of 3,000 to 300,000 sentence pairs.

    Args:
        pairs: Number of sentence pairs.
        tokens: Number of tokens of both sides together.
        types: Number of types of one side.
    """
    x = 0.13 * (expected_positions(pairs, tokens) / types**2) ** 0.75
    return types**2 * x / (1 + x)


def expected_positions(pairs: float, tokens: float) -> float:
    """Estimate the number of pairs of a source and a target position; tokens: number of tokens of both sides together.

    For sentence lengths m and n, the mean of m n is 1.2 to 1.5 times the product of their means, in German-English and
    in Bible text.
    """
    return 1.5 * (tokens / 2) ** 2 / max(pairs, 1)


def expected_memory(pairs: float, tokens: float, types: float) -> float:
    """Estimate the peak memory of training in bytes; arguments as in expected_cooccurrences()."""
    return PROGRAM + TOKEN * tokens + COOCCURRENCE * expected_cooccurrences(pairs, tokens, types)


def check_memory(needed: float) -> None:
    """Raise UserError where less memory is free than needed (bytes)."""
    free = psutil.virtual_memory().available
    if needed > free:
        raise UserError(
            f"alignment: training takes about {needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free; "
            "train on fewer pairs (alignments.<name>.max_pairs), or on a machine with more"
        )
