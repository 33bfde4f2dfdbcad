"""From a prepared corpus to token files: learn pieces or words, sort the vocabulary by training frequency, write all splits."""

import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import sentencepiece

from raretokens.config import UserError
from raretokens.subword import bpe, streams
from raretokens.subword.vocabulary import EOS, SPECIALS, UNK, Vocabulary
from raretokens.subword.words import Words

SIDES = {"lm": (".txt",), "nmt": (".source", ".target")}
Model = sentencepiece.SentencePieceProcessor | Words


def encode(task: str, corpus: Path, size: int, into: Path) -> dict:
    """Write spm.model, vocabulary.tsv, a .bin file for each split of the corpus, and meta.json; the latter is returned."""
    training = _training(corpus, SIDES[task])
    into.mkdir(parents=True, exist_ok=True)
    bpe.learn(chain.from_iterable(chain.from_iterable(map(bpe.blocks, training))), size, into / bpe.MODEL)
    model = sentencepiece.SentencePieceProcessor(model_file=str(into / bpe.MODEL))
    return _write(model, corpus, SIDES[task], into, "piece")


def encode_words(corpus: Path, size: int | None, tokenise: bool, into: Path) -> dict:
    """The same of whole words, and without a model: the vocabulary says it all."""
    training = _training(corpus, SIDES["lm"])
    into.mkdir(parents=True, exist_ok=True)
    return _write(Words.learn(training, size, tokenise), corpus, SIDES["lm"], into, "word")


def _training(corpus: Path, sides: tuple[str, ...]) -> list[Path]:
    training = [corpus / f"train{side}" for side in sides]
    missing = [str(path) for path in training if not path.exists()]
    if missing:
        raise UserError(f"{', '.join(missing)}: no such file; prepare the corpus first")
    return training


def _write(model: Model, corpus: Path, sides: tuple[str, ...], into: Path, unit: str) -> dict:
    vocabulary = _vocabulary(model, _training(corpus, sides))
    vocabulary.write(into / bpe.VOCABULARY)
    dtype, ids = streams.dtype_for(len(vocabulary)), bpe.id_map(model, vocabulary)
    splits = sorted({path.name.removesuffix(sides[-1]) for path in corpus.glob(f"*{sides[-1]}")})
    meta = {
        "unit": unit,
        "dtype": dtype.str,
        "vocabulary": len(vocabulary),
        "fillers": vocabulary.fillers,
        "splits": {},
    }
    for split in splits:
        files = [corpus / f"{split}{side}" for side in sides]
        meta["splits"][split] = _write_split(model, ids, files, into / f"{split}.bin", dtype)
    streams.write_meta(into, meta)
    return meta


def _encoded(model: Model, files: list[Path]) -> Iterator[list[list[int]]]:
    """Blocks of lines as SentencePiece ids, the lines of several files taken in turn."""
    for parts in zip(*map(bpe.blocks, files), strict=True):
        yield model.encode([line for lines in zip(*parts, strict=True) for line in lines])


def _vocabulary(model: Model, training: list[Path]) -> Vocabulary:
    counts, lines = np.zeros((2, model.get_piece_size()), np.int64), 0  # of all text, of targets
    for side, path in enumerate(training):
        is_target = side == len(training) - 1
        for block in _encoded(model, [path]):
            seen = np.bincount(np.fromiter(chain.from_iterable(block), np.int64), minlength=counts.shape[1])
            counts[0] += seen
            counts[1] += seen * is_target
            lines += len(block)
    return _sorted(model, counts, lines, lines // len(training))


def _sorted(model: Model, counts: np.ndarray, ends: int, target_ends: int) -> Vocabulary:
    """Specials, pieces by falling count (ties: SentencePiece's order), fillers up to a multiple of 8."""
    seen = [i for i in np.argsort(-counts[0], kind="stable") if counts[0, i] and i != model.unk_id()]
    fillers = -(len(SPECIALS) + len(seen)) % 8
    special = np.zeros((2, len(SPECIALS)), np.int64)
    special[:, EOS] = ends, target_ends
    special[:, UNK] = counts[:, model.unk_id()]
    columns = np.concatenate((special, counts[:, seen], np.zeros((2, fillers), np.int64)), axis=1)
    pieces = (*SPECIALS, *(model.id_to_piece(int(i)) for i in seen), *(f"<filler{i}>" for i in range(fillers)))
    return Vocabulary(pieces, columns[0], columns[1], fillers)


def _write_split(model: Model, ids: np.ndarray, files: list[Path], path: Path, dtype: np.dtype) -> dict:
    tokens = lines = 0
    part = path.with_suffix(".part")
    with open(part, "wb") as out:
        for block in _encoded(model, files):
            flat = np.concatenate([np.append(ids[line], EOS) if line else [EOS] for line in block])
            flat.astype(dtype).tofile(out)
            tokens, lines = tokens + len(flat), lines + len(block)
    shutil.move(part, path)
    return {"tokens": tokens, "lines": lines // len(files)}
