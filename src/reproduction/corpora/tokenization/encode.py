"""Encode a prepared corpus as token files, with a learnt or published model and a vocabulary sorted by training frequency."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from raretokens.errors import UserError
from raretokens.files import atomic_write, read_blocks
from raretokens.vocabulary import EOS, FILLERS, SPECIALS, UNK, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization.round_trip import RoundTrip
from reproduction.corpora.tokenization.settings import EncodeJob, Subword, WordVocabulary
from reproduction.corpora.tokenization.subword_models import BPE, GPT2, GPT2_SOURCE, SentencePiece, SubwordModel
from reproduction.corpora.tokenization.token_files import token_dtype, write_meta
from reproduction.corpora.tokenization.tokenizer import vocabulary_ids, vocabulary_token
from reproduction.corpora.tokenization.words import Words

TOKENISED = "tokenised"  # folder of the text tokenised by Moses, if any; the plain text is kept for scoring
FILTERED = ("train", "valid")
CHUNK = 1 << 20  # ids to renumber at a time


def encode(job: EncodeJob, corpus: Path, into: Path) -> dict:
    """Write the model, vocabulary.tsv, a .bin file for each split of the corpus, and meta.json.

    A vocabulary of whole words has no model file. Memory does not grow with the corpus, except while SentencePiece learns.

    Returns:
        The content of meta.json.
    Raises:
        UserError: A file is missing, the text gives too few subword tokens, or the number of rows of the vocabulary
            differs from the declared number.
    """
    declared = job.vocabulary
    text = corpus / TOKENISED if (corpus / TOKENISED).is_dir() else corpus
    if isinstance(declared, WordVocabulary):
        text, meta = corpus, {"unit": "word"}
        model = Words.learn(_training_files(text, job.sides), declared.size, declared.tokenise, declared.min_count)
    else:
        meta = {"unit": "piece"}
        if text != corpus:
            meta["tokenised"] = json.loads((corpus / "counts.json").read_text(encoding="utf-8"))["languages"]
        model = _subword_model(declared, corpus, _training_files(text, job.sides), into)
    return _write(model, declared, text, job.sides, into, meta)


def _subword_model(declared: int | Subword, corpus: Path, training: list[Path], into: Path) -> SubwordModel:
    """Learn the subword model, or convert the published one, and write its file."""
    into.mkdir(parents=True, exist_ok=True)
    if isinstance(declared, int):
        return SentencePiece.learn(training, declared, into / SentencePiece.FILE)
    if declared.model == "gpt2":
        return GPT2.convert(corpus / GPT2_SOURCE, into / GPT2.FILE)
    return BPE.learn(training, declared.merges, into / BPE.FILE)


def _training_files(text: Path, sides: tuple[str, ...]) -> list[Path]:
    training = [text / f"train{side}" for side in sides]
    missing = [str(path) for path in training if not path.exists()]
    if missing:
        raise UserError(f"{', '.join(missing)}: no such file; prepare the corpus first")
    return training


def _write(
    model: SubwordModel,
    declared: int | Subword | WordVocabulary,
    text: Path,
    sides: tuple[str, ...],
    into: Path,
    meta: dict,
) -> dict:
    """Encode every split once with ids of the model, then renumber by the counts of the training split."""
    names = sorted(path.name.removesuffix(sides[-1]) for path in text.glob(f"*{sides[-1]}"))
    into.mkdir(parents=True, exist_ok=True)
    facts, counts = {}, {}
    for name in names:
        is_filtered = isinstance(declared, Subword) and name in FILTERED and len(sides) == 2
        files = [text / f"{name}{side}" for side in sides]
        trip = RoundTrip(model, files) if name == "train" and not isinstance(model, Words) else None
        facts[name], counts[name] = _encode_split(
            model, files, into / f"{name}.numbers", PairFilter(declared) if is_filtered else None, trip
        )
        if trip and (lost := trip.report()):
            print(f"encode: {lost}", file=sys.stderr, flush=True)
    pairs = facts["train"]["lines"]
    vocabulary = _sorted_vocabulary(model, counts["train"], pairs * len(sides), pairs)
    rows = None if isinstance(declared, int) else declared.rows
    if rows and rows != len(vocabulary):
        raise UserError(f"vocabulary.rows: {rows} are declared, but {text}/train* gives {len(vocabulary)}")
    vocabulary.write(into / VOCABULARY)
    dtype, ids = token_dtype(len(vocabulary)), np.append(vocabulary_ids(model, vocabulary), EOS)
    for name in names:
        _renumber(into / f"{name}.numbers", ids, into / f"{name}.bin", dtype)
    size = {"dtype": dtype.str, "vocabulary": len(vocabulary), "fillers": vocabulary.fillers}
    meta = {**meta, **size, "splits": facts}
    write_meta(into, meta)
    return meta


class PairFilter:
    """Filter of sentence pairs by maximum length and length ratio in subword tokens, like the Moses script."""

    def __init__(self, declared: Subword) -> None:
        self.longest, self.ratio = declared.longest or np.inf, declared.ratio
        longest, ratio = f"longer than {declared.longest} pieces", f"length ratio above {declared.ratio or 0:g}"
        self.dropped = ({longest: 0} if declared.longest else {}) | ({ratio: 0} if declared.ratio else {})
        self.reasons = longest, ratio

    def __call__(self, lengths: np.ndarray) -> np.ndarray:
        """Return which pairs to keep (bool); lengths: pairs x 2."""
        most, least = lengths.max(1), lengths.min(1)
        long = most > self.longest
        uneven = (most > self.ratio * least) & ~long if self.ratio else np.zeros_like(long)
        for reason, pairs in zip(self.reasons, (long, uneven), strict=True):
            if reason in self.dropped:
                self.dropped[reason] += int(pairs.sum())
        return ~(long | uneven)

    def report(self, split: str, kept: int) -> None:
        """Print how many pairs of a split are left out. Raises UserError if none is left."""
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in self.dropped.items() if count)
        lost = sum(self.dropped.values())
        if lost and not kept:
            raise UserError(f"vocabulary.longest, vocabulary.ratio: all {lost:,} pairs of {split} are left out ({reasons})")
        if lost:
            print(f"encode: {split}: {lost:,} of {lost + kept:,} pairs are left out ({reasons})", flush=True)


def _encode_split(
    model: SubwordModel, files: Sequence[Path], path: Path, keep: PairFilter | None, trip: RoundTrip | None
) -> tuple[dict, np.ndarray]:
    """Write the model's ids of a split. Lines of several files alternate, and each line ends in the id model.size.

    Returns:
        The entry of the split in meta.json, and the counts of each id in all files and in the last file (2 x size).
    """
    end, sides, tokens, lines = model.size, len(files), 0, 0
    dtype, counts = token_dtype(end + 1), np.zeros((2, end + 1), np.int64)
    with open(path, "wb") as out:
        for ids, lengths in _encode_blocks(model, files, dtype, trip):
            if keep:
                kept = np.repeat(keep(lengths.reshape(-1, sides) - 1), sides)
                ids, lengths = ids[np.repeat(kept, lengths)], lengths[kept]
            ids.tofile(out)
            last = np.arange(len(lengths)) % sides == sides - 1
            counts[0] += np.bincount(ids, minlength=end + 1)
            if sides > 1:
                counts[1] += np.bincount(ids[np.repeat(last, lengths)], minlength=end + 1)
            tokens, lines = tokens + len(ids), lines + len(lengths) // sides
    if keep:
        keep.report(path.stem, lines)
    facts = {"tokens": tokens, "lines": lines}
    return facts | ({"dropped": keep.dropped} if keep else {}), counts[[0, int(sides > 1)], :end]


def _encode_blocks(
    model: SubwordModel, files: Sequence[Path], dtype: np.dtype, trip: RoundTrip | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the ids of a block of lines, and the number of ids of each line including its end."""
    end = (model.size,)
    for blocks in zip(*map(read_blocks, files), strict=True):
        lines = [*chain.from_iterable(zip(*blocks, strict=True))]
        encoded = model.encode(lines)
        if trip:
            trip.add(lines, encoded)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1
        ids = chain.from_iterable(chain(line, end) for line in encoded)
        yield np.fromiter(ids, dtype, lengths.sum()), lengths


def _sorted_vocabulary(model: SubwordModel, counts: np.ndarray, ends: int, target_ends: int) -> Vocabulary:
    """Return the vocabulary: specials, tokens by falling count (ties by model id), and fillers up to a multiple of 8."""
    seen = [i for i in np.argsort(-counts[0], kind="stable") if counts[0, i] and i != model.unknown]
    fillers = -(len(SPECIALS) + len(seen)) % 8
    special = np.zeros((2, len(SPECIALS)), np.int64)
    special[:, EOS] = ends, target_ends
    if model.unknown is not None:
        special[:, UNK] = counts[:, model.unknown]
    columns = np.concatenate((special, counts[:, seen], np.zeros((2, fillers), np.int64)), axis=1)
    tokens = (*SPECIALS, *(vocabulary_token(model, int(i)) for i in seen), *(f"{FILLERS}{i}>" for i in range(fillers)))
    return Vocabulary(tokens, columns[0], columns[1], fillers)


def _renumber(numbers: Path, ids: np.ndarray, path: Path, dtype: np.dtype) -> None:
    """Write the token file of a split with ids of the vocabulary, and remove the file with ids of the model."""
    old, new = token_dtype(len(ids)), ids.astype(dtype)
    with atomic_write(path) as part, open(numbers, "rb") as source, open(part, "wb") as out:
        while len(chunk := np.fromfile(source, old, CHUNK)):
            new[chunk].tofile(out)
    numbers.unlink()
