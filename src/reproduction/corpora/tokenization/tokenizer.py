"""Encode text to vocabulary ids and decode ids to text, with the subword model of a token folder."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from raretokens.errors import UserError
from raretokens.vocabulary import FILLERS, SPECIALS, UNK, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization.subword_models import BPE, GPT2, SentencePiece, SubwordModel
from reproduction.corpora.tokenization.token_files import read_meta

MODELS = (SentencePiece, GPT2, BPE)  # a token folder contains the file of exactly one of these models


class Tokenizer:
    """Encoder and decoder of a token folder's vocabulary.

    reverse: Decode to the language of the corpus's source side, as in translation from target to source.
    """

    def __init__(self, folder: Path, reverse: bool = False) -> None:
        models = [model for model in MODELS if (folder / model.FILE).exists()]
        if not models:
            raise UserError(f"{folder}: none of {', '.join(model.FILE for model in MODELS)} is there; encode it first")
        self.model = models[0](folder / models[0].FILE)
        self.vocabulary = Vocabulary.read(folder / VOCABULARY)
        self.ids = {token: number for number, token in enumerate(self.vocabulary.tokens)}
        self._from_model = vocabulary_ids(self.model, self.vocabulary)
        self._to_model = {int(index): number for number, index in enumerate(self._from_model) if index != UNK}
        languages = read_meta(folder).get("tokenised")
        self._language = languages and languages["source" if reverse else "target"]

    def encode(self, text: str) -> list[int]:
        """Return ids without </s>. The first word has a space mark like any other word."""
        return self._renumber(self.model.encode([text])[0]) if text else []

    def encode_without_space(self, word: str) -> list[int]:
        """Return ids of a word without its space mark, if the model uses space marks."""
        return self._renumber(self.model.encode_without_space(word))

    def decode(self, ids: Iterable[int]) -> str:
        """Return plain text, also where the corpus was tokenised by Moses. Special tokens and fillers are left out."""
        known = [self._to_model[i] for i in ids if len(SPECIALS) <= i < self.vocabulary.types]
        [text] = self.model.decode([known])
        if not (text and self._language):
            return text
        from sacremoses import MosesDetokenizer  # imported here because only some corpora need it

        return MosesDetokenizer(self._language).detokenize(text.split(" "))

    def _renumber(self, numbers: Sequence[int]) -> list[int]:
        return self._from_model[numbers].tolist() if numbers else []


def vocabulary_ids(model: SubwordModel, vocabulary: Vocabulary) -> np.ndarray:
    """Return the vocabulary id of each id of the model. Tokens unseen in training become <unk>."""
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    return np.array([ids.get(vocabulary_token(model, number), UNK) for number in range(model.size)], dtype=np.int64)


def vocabulary_token(model: SubwordModel, number: int) -> str:
    """Return a token as the vocabulary stores it, with a backslash before text that looks like a special or a filler."""
    token = model.token(number)
    bare = token.lstrip("\\")
    return f"\\{token}" if number != model.unknown and (bare in SPECIALS or bare.startswith(FILLERS)) else token
