"""The text of a scale before it is prepared: expected vocabulary and tokens, needs of its stages, and random text in its place.

Hours follow from the speeds in benchmarks/data-cpu.csv and alignment-cpu.csv. Memory is the largest peak measured there.
Downloads are not counted. A need is NaN if the size of the text is unknown.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from raretokens.errors import UserError
from raretokens.paths import TOKENS
from raretokens.tasks import describe
from raretokens.tasks.parameters import Parameters
from raretokens.tokenization.alignment import ITERATIONS, expected_cooccurrences, expected_memory, expected_positions
from raretokens.tokenization.config import Subword, WordVocabulary
from raretokens.tokenization.token_files import IMAGES, LABELS, META, read_meta, token_dtype, write_meta
from raretokens.tokenization.token_files import tokens as read_tokens
from raretokens.tokenization.vocabulary import EOS, SPECIALS, VOCABULARY, Vocabulary
from raretokens.training.config import TrainJob
from raretokens.yaml_files import read_yaml

EXPECTED = Path(__file__).parent / "corpora.yaml"
PREPARED = {"text": 50e6, "bitext": 2.5e6}  # bytes of text per second; bitext includes Moses tokenization
ENCODED = {"text": 5e6, "words": 6e6, "bitext": 2.3e6}  # bytes of text per second
# Bytes of memory, independent of the size of the text: blocks of text, and the data from which merges are learnt.
PEAK = {"text": 0.3e9, "words": 0.3e9, "bitext": 1.5e9}
LEARNT = 10.0  # bytes of memory that SentencePiece needs per byte of its training text
SEED, OCCURRENCES = 1, 1e8  # of random text: the total count in its vocabulary is of the order of the full corpora
SECONDS = 0.25e-6  # seconds per pair of positions, in each iteration of the alignment and in the linking pass


class Text(NamedTuple):
    rows: int  # N: token types, including special tokens and fillers
    tokens: int | None  # tokens of the training text, in translation of both sides; None: unknown

    @property
    def disk(self) -> float:
        """Bytes of the token files."""
        return float(token_dtype(self.rows).itemsize * (self.tokens or 0))


def text(parameters: Parameters, name: str, data: Path = TOKENS) -> Text:
    """Return vocabulary and tokens of the token files `name`, or the values expected by corpora.yaml or the vocabulary size.

    Raises:
        UserError: the vocabulary is not known before encoding, as for the full word vocabulary of a custom corpus.
    """
    return encoded(name, data) or _expected(parameters, name)


def encoded(name: str, data: Path = TOKENS) -> Text | None:
    """Return vocabulary and tokens of existing token files; None if there are none."""
    if not (data / name / META).exists():
        return None
    meta = read_meta(data / name)
    return Text(meta["vocabulary"], meta["splits"].get("train", {}).get("tokens"))


def expected_size(corpus: str) -> dict[str, float]:
    """Return the expected `megabytes` and `pairs` of a corpus's training text; empty if corpora.yaml does not list it."""
    return read_yaml(EXPECTED).get(corpus, {}).get("size", {})


def _expected(parameters: Parameters, name: str) -> Text:
    declared = parameters.tokens[name].vocabulary
    number, rows = _number(declared), getattr(declared, "rows", None)
    corpus = parameters.corpus_of(name)
    kind = "words" if isinstance(declared, WordVocabulary) else describe(corpus.task).kind
    expected = read_yaml(EXPECTED).get(corpus.corpus, {}).get(kind)
    if expected and number in (None, expected["vocabulary"]):
        return Text(rows or expected["rows"], expected["tokens"])
    if rows:
        return Text(rows, None)
    if number is None:
        raise UserError(
            f"tokens.{name}.vocabulary: how many types {corpus.corpus} has is known when it is encoded; dvc repro encode@{name}"
        )
    return Text(-(-(number + len(SPECIALS) - 1) // 8) * 8, None)  # SentencePiece's own <unk> is one of SPECIALS


def _number(declared: int | Subword | WordVocabulary) -> int | None:
    """Return the number of subword tokens, merges or words in params.yaml; None if the text or the model determines it."""
    if isinstance(declared, int):
        return declared
    return declared.merges if isinstance(declared, Subword) else declared.size


@dataclass(frozen=True)
class Need:
    stage: str  # DVC's name of the stage
    memory: float  # bytes
    disk: float  # bytes
    hours: float


def needs(parameters: Parameters) -> Iterator[Need]:
    """Yield the needs of all stages between the downloads and the runs, in order."""
    for name, corpus in parameters.corpora.items():
        size, kind = _bytes(corpus.corpus), describe(corpus.task).kind
        yield Need(f"prepare@{name}", PEAK["text"], size, size / PREPARED.get(kind, PREPARED["text"]) / 3600)
    for name, tokens in parameters.tokens.items():
        corpus, found = parameters.corpus_of(name), _text_or_none(parameters, name)
        size, kind = _bytes(corpus.corpus), describe(corpus.task).kind
        kind = "words" if isinstance(tokens.vocabulary, WordVocabulary) else kind
        learnt = LEARNT * size if isinstance(tokens.vocabulary, int) else 0.0
        disk = found.disk if found and found.tokens else math.nan
        hours = size / ENCODED.get(kind, ENCODED["words"]) / 3600
        yield Need(f"encode@{name}", PEAK.get(kind, PEAK["text"]) + learnt, disk, hours)
    yield from (_alignment(parameters, name) for name in parameters.alignments)


def _alignment(parameters: Parameters, name: str) -> Need:
    pairs, found = expected_size(parameters.corpus_of(name).corpus).get("pairs"), _text_or_none(parameters, name)
    if not (pairs and found and found.tokens):
        return Need(f"align@{name}", math.nan, math.nan, math.nan)
    training = min(parameters.alignments[name].max_pairs or pairs, pairs)  # pairs that the aligner is trained on
    share, types = training / pairs, found.rows  # an upper bound of the types of a side
    links = 12 * expected_cooccurrences(pairs, found.tokens, types)  # bytes; only types that share a pair can be linked
    passes = 2 * (ITERATIONS * share + 1)  # over both directions
    hours = SECONDS * passes * expected_positions(pairs, found.tokens) / 3600
    return Need(f"align@{name}", expected_memory(training, share * found.tokens, types), links, hours)


def _bytes(corpus: str) -> float:
    return 1e6 * expected_size(corpus).get("megabytes", math.nan)


def _text_or_none(parameters: Parameters, name: str) -> Text | None:
    try:
        return text(parameters, name)
    except UserError:  # unknown before encoding
        return None


def write_random_text(folder: Path, job: TrainJob, rows: int, tokens: dict[str, int], longest: int | None = None) -> None:
    """Write random token files of the kind that the task of a training job reads, with random classes or images.

    Args:
        rows: number of token types, including special tokens.
        tokens: split -> number of tokens of each side.
        longest: maximum tokens of a document or of a side of a sentence pair; None: the block of the training.
    """
    task, block = describe(job.run.task), job.training.block
    splits = {split: len(task.sides) * number for split, number in tokens.items()}
    write_random_tokens(folder, rows, splits, longest or block if task.kind in ("bitext", "documents") else None)
    if task.kind in ("documents", "images"):
        _add_labels(folder, task.kind, job.run.shape.get("classes", 0), block)


def write_random_tokens(folder: Path, rows: int, splits: dict[str, int], longest: int | None = None) -> None:
    """Write vocabulary.tsv, meta.json and <split>.bin with random token ids, whose frequencies follow Zipf's law.

    Args:
        rows: number of token types, including special tokens.
        splits: split -> number of tokens.
        longest: maximum tokens per side of a sentence pair; None: one stream without pairs.
    """
    folder.mkdir(parents=True)
    random, share = np.random.default_rng(SEED), 1.0 / np.arange(1, rows - len(SPECIALS) + 1)
    share /= share.sum()
    counts = np.concatenate((np.zeros(len(SPECIALS)), share * OCCURRENCES)).astype(np.int64)
    counts[EOS] = OCCURRENCES / 25
    markers = (*SPECIALS, *(f"type{number}" for number in range(len(SPECIALS), rows)))
    Vocabulary(markers, counts * (1 if longest is None else 2), counts, 0).write(folder / VOCABULARY)
    dtype = token_dtype(rows)
    for split, tokens in splits.items():
        ids = len(SPECIALS) + np.searchsorted(share.cumsum(), random.random(tokens)).clip(max=len(share) - 1)
        if longest is not None:
            ids = _paired(ids, longest, random)
        ids.astype(dtype).tofile(folder / f"{split}.bin")
    meta = {"dtype": dtype.str, "vocabulary": rows, "fillers": 0}
    write_meta(folder, meta | {"splits": {name: {"tokens": count} for name, count in splits.items()}})


def _add_labels(folder: Path, kind: str, classes: int, pixels: int) -> None:
    """Add random classes to documents, or turn random token files into images."""
    random, meta = np.random.default_rng(SEED), read_meta(folder)
    for split in meta["splits"]:
        ids = np.array(read_tokens(folder, split))
        if kind == "documents":
            labels = random.integers(0, classes, np.count_nonzero(ids == EOS))
            labels.astype(meta["dtype"]).tofile(folder / f"{split}{LABELS}.bin")
            continue
        of_images = ids[: max(len(ids) // pixels, 1)]
        np.stack((of_images, np.full_like(of_images, EOS)), 1).tofile(folder / f"{split}.bin")
        random.integers(0, 256, (len(of_images), pixels)).astype(np.uint8).tofile(folder / f"{split}{IMAGES}.bin")
    names = [f"class{number}" for number in range(classes)]
    write_meta(folder, meta | {"classes": names, "pixels": pixels})


def _paired(ids: np.ndarray, longest: int, random: np.random.Generator) -> np.ndarray:
    """Split ids into sentence pairs of 2 to `longest` ids a side, including EOS. Both sides have equal length."""
    ids, start = ids.copy(), 0
    while start < len(ids):
        length = int(random.integers(2, longest + 1))
        if start + 2 * length > len(ids):
            return ids[:start]
        ids[[start + length - 1, start + 2 * length - 1]] = EOS
        start += 2 * length
    return ids
