"""From a prepared corpus to token files: learn or take pieces, sort the vocabulary by training frequency, write all splits."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from raretokens.errors import UserError
from raretokens.files import whole
from raretokens.tokenization import encoder
from raretokens.tokenization import token_files as streams
from raretokens.tokenization.config import EncodeJob as Job
from raretokens.tokenization.config import Subword, WordVocabulary
from raretokens.tokenization.gpt2 import GPT2, SOURCE
from raretokens.tokenization.joint import Joint
from raretokens.tokenization.packing import packed
from raretokens.tokenization.sentence_piece import SentencePiece
from raretokens.tokenization.vocabulary import EOS, FILLERS, SPECIALS, UNK, VOCABULARY, Vocabulary
from raretokens.tokenization.words import Words

TOKENISED = (
    "tokenised"  # folder of a corpus that its own recipe cuts into words; the plain text beside it is for scoring
)
FILTERED = ("train", "valid")
AT_ONCE = 1 << 20  # numbers of a chunk of a token file


def encode(job: Job, corpus: Path, into: Path) -> dict:
    """Write the model, vocabulary.tsv, a .bin file for each split of the corpus, and meta.json; the latter is returned.

    Whole words have no model: the vocabulary says it all. Memory does not grow with the corpus, but for what SentencePiece needs
    to learn. Raises UserError where a file is missing, the text gives too few pieces, or the vocabulary has another number of
    rows than declared.
    """
    if isinstance(job.vocabulary, WordVocabulary):
        return _words(job.vocabulary, job.sides, corpus, into)
    return _pieces(job.vocabulary, job.sides, corpus, into)


def _pieces(declared: int | Subword, sides: tuple[str, ...], corpus: Path, into: Path) -> dict:
    text = corpus / TOKENISED if (corpus / TOKENISED).is_dir() else corpus
    model = _model(declared, corpus, _training(text, sides), into)
    meta = {"unit": "piece"}
    if text != corpus:
        meta["tokenised"] = json.loads((corpus / "counts.json").read_text(encoding="utf-8"))["languages"]
    declared = None if isinstance(declared, int) else declared
    return _write(model, text, sides, into, meta, declared, declared and declared.rows)


def _words(declared: WordVocabulary, sides: tuple[str, ...], corpus: Path, into: Path) -> dict:
    words = Words.learn(_training(corpus, sides), declared.size, declared.tokenise, declared.least_count)
    return _write(words, corpus, sides, into, {"unit": "word"}, rows=declared.rows)


def _model(declared: int | Subword, corpus: Path, training: list[Path], into: Path) -> encoder.Model:
    """What cuts the text, learnt or taken, and written to its file."""
    into.mkdir(parents=True, exist_ok=True)
    if isinstance(declared, int):
        return SentencePiece.learn(training, declared, into / SentencePiece.FILE)
    if declared.model == "gpt2":
        return GPT2.take(corpus / SOURCE, into / GPT2.FILE)
    return Joint.learn(training, declared.merges, into / Joint.FILE)


def _training(text: Path, sides: tuple[str, ...]) -> list[Path]:
    training = [text / f"train{side}" for side in sides]
    missing = [str(path) for path in training if not path.exists()]
    if missing:
        raise UserError(f"{', '.join(missing)}: no such file; prepare the corpus first")
    return training


def _write(
    model: encoder.Model,
    text: Path,
    sides: tuple[str, ...],
    into: Path,
    meta: dict,
    declared: Subword | None = None,
    rows: int | None = None,
) -> dict:
    """Every split is cut once, into numbers of the model; ids follow from the counts of the training split."""
    names = sorted(path.name.removesuffix(sides[-1]) for path in text.glob(f"*{sides[-1]}"))
    into.mkdir(parents=True, exist_ok=True)
    facts, counts = {}, {}
    for name in names:
        keep = _Filter(declared) if declared and name in FILTERED and len(sides) == 2 else None
        files = [text / f"{name}{side}" for side in sides]
        facts[name], counts[name] = _cut(model, files, into / f"{name}.numbers", keep)
    pairs = facts["train"]["lines"]
    vocabulary = _sorted(model, counts["train"], pairs * len(sides), pairs)
    if rows and rows != len(vocabulary):
        raise UserError(f"vocabulary.rows: {rows} are declared, but {text}/train* gives {len(vocabulary)}")
    vocabulary.write(into / VOCABULARY)
    dtype, ids = streams.dtype_for(len(vocabulary)), np.append(encoder.id_map(model, vocabulary), EOS)
    for name in names:
        _renumber(into / f"{name}.numbers", ids, into / f"{name}.bin", dtype)
    size = {"dtype": dtype.str, "vocabulary": len(vocabulary), "fillers": vocabulary.fillers}
    meta = {**meta, **size, "splits": facts}
    streams.write_meta(into, meta)
    return meta


class _Filter:
    """Leaves out pairs as the Moses script does, of lengths in pieces: too long, or one side much longer than the other."""

    def __init__(self, declared: Subword) -> None:
        self.longest, self.ratio = declared.longest or np.inf, declared.ratio
        longest, ratio = f"longer than {declared.longest} pieces", f"length ratio above {declared.ratio or 0:g}"
        self.dropped = ({longest: 0} if declared.longest else {}) | ({ratio: 0} if declared.ratio else {})
        self.reasons = longest, ratio

    def __call__(self, lengths: np.ndarray) -> np.ndarray:
        """pairs x 2 -> which to keep."""
        most, least = lengths.max(1), lengths.min(1)
        long = most > self.longest
        uneven = (most > self.ratio * least) & ~long if self.ratio else np.zeros_like(long)
        for reason, pairs in zip(self.reasons, (long, uneven), strict=True):
            if reason in self.dropped:
                self.dropped[reason] += int(pairs.sum())
        return ~(long | uneven)


def _cut(model: encoder.Model, files: Sequence[Path], path: Path, keep: _Filter | None) -> tuple[dict, np.ndarray]:
    """Write the numbers of a split, the lines of several files in turn, each closed by model.size.

    Returns the row of meta.json, and how often each number occurs: in all files, and in the last (2 x size).
    """
    end, sides, tokens, lines = model.size, len(files), 0, 0
    dtype, counts = streams.dtype_for(end + 1), np.zeros((2, end + 1), np.int64)
    with open(path, "wb") as out:
        for numbers, lengths in packed(model, files, dtype):
            kept = np.repeat(keep(lengths.reshape(-1, sides) - 1), sides) if keep else np.ones(len(lengths), bool)
            if not kept.all():
                numbers, lengths = numbers[np.repeat(kept, lengths)], lengths[kept]
            numbers.tofile(out)
            last = np.arange(len(lengths)) % sides == sides - 1
            counts[0] += np.bincount(numbers, minlength=end + 1)
            if sides > 1:
                counts[1] += np.bincount(numbers[np.repeat(last, lengths)], minlength=end + 1)
            tokens, lines = tokens + len(numbers), lines + len(lengths) // sides
    facts = {"tokens": tokens, "lines": lines}
    return facts | ({"dropped": keep.dropped} if keep else {}), counts[[0, int(sides > 1)], :end]


def _sorted(model: encoder.Model, counts: np.ndarray, ends: int, target_ends: int) -> Vocabulary:
    """Specials, pieces by falling count (ties: the model's order), fillers up to a multiple of 8."""
    seen = [i for i in np.argsort(-counts[0], kind="stable") if counts[0, i] and i != model.unknown]
    fillers = -(len(SPECIALS) + len(seen)) % 8
    special = np.zeros((2, len(SPECIALS)), np.int64)
    special[:, EOS] = ends, target_ends
    if model.unknown is not None:
        special[:, UNK] = counts[:, model.unknown]
    columns = np.concatenate((special, counts[:, seen], np.zeros((2, fillers), np.int64)), axis=1)
    pieces = (*SPECIALS, *(encoder.name(model, int(i)) for i in seen), *(f"{FILLERS}{i}>" for i in range(fillers)))
    return Vocabulary(pieces, columns[0], columns[1], fillers)


def _renumber(numbers: Path, ids: np.ndarray, path: Path, dtype: np.dtype) -> None:
    """Write the token file of a split, and take the numbers away."""
    old, new = streams.dtype_for(len(ids)), ids.astype(dtype)
    with whole(path) as part, open(numbers, "rb") as source, open(part, "wb") as out:
        while len(chunk := np.fromfile(source, old, AT_ONCE)):
            new[chunk].tofile(out)
    numbers.unlink()
