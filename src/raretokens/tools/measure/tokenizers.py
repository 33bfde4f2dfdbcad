"""Tokenizers of model folders, without code of the folder: files of `tokenizers`, of GPT-2, of Marian, of SentencePiece."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from raretokens.errors import UserError
from raretokens.tokenization.packing import blocks
from raretokens.tools.measure.formats import tree

MARKS = ("bos", "pad", "eos", "unk")  # in the order of subword.vocabulary.SPECIALS


class Pieces(Protocol):
    """A tokenizer."""

    size: int  # ids are below it, though not all of them need to be in use

    def encode(self, lines: list[str]) -> list[list[int]]: ...

    def piece(self, number: int) -> str | None: ...

    def text(self, number: int) -> str: ...


class Fast:
    """tokenizer.json, or GPT-2's vocab.json and merges.txt."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        if (folder / "tokenizer.json").is_file():
            self.model = Tokenizer.from_file(str(folder / "tokenizer.json"))
        else:
            self.model = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
            self.model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            self.model.decoder = decoders.ByteLevel()
        self.model.no_truncation()
        self.model.no_padding()
        self.size = max(self.model.get_vocab().values(), default=-1) + 1

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [cut.ids for cut in self.model.encode_batch_fast(lines, add_special_tokens=False)]

    def piece(self, number: int) -> str | None:
        return self.model.id_to_token(number)

    def text(self, number: int) -> str:
        return self.model.decode([number], skip_special_tokens=False)


class SentencePieces:
    """A model of SentencePiece; ids number the pieces anew, as Marian and the pipeline do, and what they lack is unknown."""

    def __init__(self, path: Path, ids: dict[str, int] | None = None) -> None:
        from sentencepiece import SentencePieceProcessor

        self.model = SentencePieceProcessor(model_file=str(path))
        self.ids = ids or {self.model.id_to_piece(i): i for i in range(self.model.get_piece_size())}
        self.names = {number: piece for piece, number in self.ids.items()}
        self.size, self.unknown = max(self.names) + 1, self.ids.get("<unk>", 0)

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [[self.ids.get(piece, self.unknown) for piece in row] for row in self.model.encode(lines, out_type=str)]

    def piece(self, number: int) -> str | None:
        return self.names.get(number)

    def text(self, number: int) -> str:
        return self.model.decode_pieces([self.names[number]])


def find(folder: Path) -> Pieces | None:
    """The tokenizer of a folder; None where none of the known files is there."""
    have = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    try:
        if "tokenizer.json" in have or {"vocab.json", "merges.txt"} <= have:
            return Fast(folder)
        if "source.spm" in have:  # Marian's
            return SentencePieces(folder / "source.spm", tree(folder / "vocab.json"))
        if "tokenizer.model" in have:
            return SentencePieces(folder / "tokenizer.model")
    except ImportError as error:
        raise UserError(f"{folder}: its tokenizer needs {error.name}: pip install {error.name}") from None
    except Exception as error:  # the library's own, of files that it cannot read
        raise UserError(f"{folder}: its tokenizer cannot be read: {error}") from None
    return None


def marks(folder: Path, config: dict[str, Any], pieces: Pieces | None) -> dict[str, int | None]:
    """Ids of the special tokens; of those that stand for each other the first of eos, bos, unk, pad keeps the id."""
    settings = tree(folder / "tokenizer_config.json")
    names = {pieces.piece(number): number for number in range(pieces.size)} if pieces else {}
    found: dict[str, int | None] = dict.fromkeys(MARKS)
    for mark in ("eos", "bos", "unk", "pad"):
        number = config.get(f"{mark}_token_id", config.get("text_config", {}).get(f"{mark}_token_id"))
        number = number[0] if isinstance(number, list) and number else number
        if number is None:
            named = settings.get(f"{mark}_token")
            number = names.get(named["content"] if isinstance(named, dict) else named)
        if isinstance(number, int) and number >= 0 and number not in found.values():
            found[mark] = number
    return found


def ids(pieces: Pieces, path: Path, end: int | None) -> Iterator[np.ndarray]:
    """Ids of a text, a block of lines at a time; end stands after each line, or the line feed itself where it is None."""
    for lines in blocks(path):
        cut = pieces.encode(lines if end is not None else [f"{line}\n" for line in lines])
        if end is not None:
            cut = [[*row, end] for row in cut]
        yield np.concatenate([np.array(row, np.int64) for row in cut]) if cut else np.empty(0, np.int64)


def can_make(pieces: Pieces, numbers: Sequence[int]) -> list[bool]:
    """Whether cutting the text of each piece gives that piece."""
    texts = [pieces.text(number) for number in numbers]
    return [number in cut for number, cut in zip(numbers, pieces.encode(texts), strict=True)]
