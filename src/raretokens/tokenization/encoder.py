"""A token folder's own encoder: text to ids of its frequency-sorted vocabulary and back, whatever model cuts the pieces.

Where the prefixes of AGG's table 14 lie in a test text: known by their first words, which begin a line of WikiText.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from raretokens.errors import UserError
from raretokens.tokenization.gpt2 import GPT2
from raretokens.tokenization.joint import Joint
from raretokens.tokenization.sentence_piece import SentencePiece
from raretokens.tokenization.token_files import META
from raretokens.tokenization.vocabulary import EOS, FILLERS, SPACE, SPECIALS, UNK, VOCABULARY, Vocabulary

MODELS = (SentencePiece, GPT2, Joint)  # told apart by the name of their file


class Model(Protocol):
    """What cuts text into pieces, with numbers of its own."""

    size: int  # numbers are 0 to size - 1
    unknown: int | None  # the number of what it has no piece for
    by_words: bool  # packed.py

    def encode(self, lines: list[str]) -> list[list[int]]: ...

    def piece(self, number: int) -> str: ...


class Encoder:
    """Text <-> ids of the vocabulary in a token folder. reverse: what is decoded is in the language of the sources."""

    def __init__(self, folder: Path, reverse: bool = False) -> None:
        models = [model for model in MODELS if (folder / model.FILE).exists()]
        if not models:
            raise UserError(f"{folder}: none of {', '.join(model.FILE for model in MODELS)} is there; encode it first")
        self.model = models[0](folder / models[0].FILE)
        self.vocabulary = Vocabulary.read(folder / VOCABULARY)
        self.ids = {piece: index for index, piece in enumerate(self.vocabulary.pieces)}
        self._from_model = id_map(self.model, self.vocabulary)
        self._to_model = {int(index): number for number, index in enumerate(self._from_model) if index != UNK}
        languages = json.loads((folder / META).read_text(encoding="utf-8")).get("tokenised")
        self._language = languages and languages["source" if reverse else "target"]

    def encode(self, text: str) -> list[int]:
        """Ids without an end mark; a word at the start is space-marked like any other."""
        return self._renumbered(self.model.encode([text])[0]) if text else []

    def encode_bare(self, word: str) -> list[int]:
        """Ids of a word without the space mark in front, where the model has one."""
        return self._renumbered(self.model.encode_bare(word))

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids, plain even where the corpus was tokenised; special tokens and fillers are left out."""
        text = self.model.decode([self._to_model[i] for i in ids if len(SPECIALS) <= i < self.vocabulary.types])
        return _detokenised(text, self._language) if self._language else text

    def _renumbered(self, numbers: Sequence[int]) -> list[int]:
        return self._from_model[numbers].tolist() if numbers else []


def id_map(model: Model, vocabulary: Vocabulary) -> np.ndarray:
    """Number of the model -> id of the vocabulary; pieces unseen in training become <unk>."""
    ids = {piece: index for index, piece in enumerate(vocabulary.pieces)}
    return np.array([ids.get(name(model, number), UNK) for number in range(model.size)], dtype=np.int64)


def name(model: Model, number: int) -> str:
    """What the vocabulary calls a piece: where text looks like a special row or a filler, a backslash goes before it."""
    piece = model.piece(number)
    bare = piece.lstrip("\\")
    return f"\\{piece}" if number != model.unknown and (bare in SPECIALS or bare.startswith(FILLERS)) else piece


def _detokenised(text: str, language: str) -> str:
    from sacremoses import MosesDetokenizer  # only corpora that were tokenised by Moses need it

    return MosesDetokenizer(language).detokenize(text.split(" ")) if text else text


FIRST_WORDS = ("A Company, 2nd", "The twelve 45", "Despite the expensive", "Amos was born")  # of samples 1 to 4
LONGEST = 40  # tokens in which the first words end, whatever the pieces


def located(text: np.ndarray, pieces: Sequence[str], needed: int) -> dict[int, int]:
    """Number of a printed sample -> where its prefix begins; those that are not in the text are left out.

    pieces: by id. Blanks do not count, since texts differ in them. needed: tokens that must follow.
    """
    starts = [0, *(np.flatnonzero(text[:-1] == EOS) + 1).tolist()]
    lines = {start: _bare(pieces[i] for i in text[start : start + LONGEST].tolist()) for start in starts}
    places = {
        number: next((start for start, line in lines.items() if line.startswith(_bare(words))), None)
        for number, words in enumerate(FIRST_WORDS, start=1)
    }
    return {number: start for number, start in places.items() if start is not None and start + needed <= len(text)}


def _bare(parts: Iterable[str]) -> str:
    return "".join(part.replace(SPACE, "").replace(" ", "") for part in parts)
