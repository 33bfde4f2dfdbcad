"""Text to the ids of a token folder's vocabulary and back, whatever model splits the text."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from raretokens.errors import UserError
from raretokens.tokenization.subword_models import BPE, GPT2, SentencePiece, SubwordModel
from raretokens.tokenization.token_files import META
from raretokens.tokenization.vocabulary import FILLERS, SPECIALS, UNK, VOCABULARY, Vocabulary

MODELS = (SentencePiece, GPT2, BPE)  # a token folder holds the file of one of them


class Tokenizer:
    """Text <-> ids of the vocabulary in a token folder. reverse: what is decoded is in the language of the sources."""

    def __init__(self, folder: Path, reverse: bool = False) -> None:
        models = [model for model in MODELS if (folder / model.FILE).exists()]
        if not models:
            raise UserError(f"{folder}: none of {', '.join(model.FILE for model in MODELS)} is there; encode it first")
        self.model = models[0](folder / models[0].FILE)
        self.vocabulary = Vocabulary.read(folder / VOCABULARY)
        self.ids = {token: number for number, token in enumerate(self.vocabulary.tokens)}
        self._from_model = vocabulary_ids(self.model, self.vocabulary)
        self._to_model = {int(index): number for number, index in enumerate(self._from_model) if index != UNK}
        languages = json.loads((folder / META).read_text(encoding="utf-8")).get("tokenised")
        self._language = languages and languages["source" if reverse else "target"]

    def encode(self, text: str) -> list[int]:
        """Ids without an end mark; a word at the start is space-marked like any other."""
        return self._renumber(self.model.encode([text])[0]) if text else []

    def encode_without_space(self, word: str) -> list[int]:
        """Ids of a word without the space mark in front, where the model has one."""
        return self._renumber(self.model.encode_without_space(word))

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids, plain even where the corpus was tokenised; special tokens and fillers are left out."""
        text = self.model.decode([self._to_model[i] for i in ids if len(SPECIALS) <= i < self.vocabulary.types])
        if not (text and self._language):
            return text
        from sacremoses import MosesDetokenizer  # only corpora that were tokenised by Moses need it

        return MosesDetokenizer(self._language).detokenize(text.split(" "))

    def _renumber(self, numbers: Sequence[int]) -> list[int]:
        return self._from_model[numbers].tolist() if numbers else []


def vocabulary_ids(model: SubwordModel, vocabulary: Vocabulary) -> np.ndarray:
    """Id of the model -> id of the vocabulary; tokens unseen in training become <unk>."""
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    return np.array([ids.get(vocabulary_token(model, number), UNK) for number in range(model.size)], dtype=np.int64)


def vocabulary_token(model: SubwordModel, number: int) -> str:
    """A token as the vocabulary has it: a backslash goes before text that looks like a special row or a filler."""
    token = model.token(number)
    bare = token.lstrip("\\")
    return f"\\{token}" if number != model.unknown and (bare in SPECIALS or bare.startswith(FILLERS)) else token
