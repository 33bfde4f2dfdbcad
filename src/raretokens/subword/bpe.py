"""SentencePiece BPE: learning the merges, and text to ids of our frequency-sorted vocabulary and back."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import sentencepiece

from raretokens.config import UserError
from raretokens.subword.vocabulary import SPECIALS, UNK, Vocabulary

if TYPE_CHECKING:
    from raretokens.subword.words import Words

MODEL, VOCABULARY = "spm.model", "vocabulary.tsv"


def learn(lines: Iterable[str], size: int, path: Path) -> None:
    """Learn a BPE of that many pieces and write the SentencePiece model.

    Text is taken as it is (identity normalisation), so decoding gives it back. Sentences come through an iterator and the
    model through a writer: with file names instead, the model would hold their paths and differ from machine to machine.
    """
    with open(path, "wb") as file:
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=file,
                model_type="bpe",
                vocab_size=size,
                character_coverage=1.0,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                max_sentence_length=1 << 20,
                num_threads=1,
                bos_id=-1,
                eos_id=-1,
                pad_id=-1,
                unk_id=0,
                minloglevel=1,
            )
        except RuntimeError as error:
            raise UserError(f"vocabulary: {size} pieces cannot be learnt from this text: {error}") from None


class Encoder:
    """Text <-> ids of the vocabulary in a token folder."""

    def __init__(self, folder: Path) -> None:
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(folder / MODEL))
        self.vocabulary = Vocabulary.read(folder / VOCABULARY)
        self.ids = {piece: index for index, piece in enumerate(self.vocabulary.pieces)}
        self._from_model = id_map(self.model, self.vocabulary)
        self._bare: sentencepiece.SentencePieceProcessor | None = None

    def encode(self, text: str) -> list[int]:
        """Ids without an end mark; a word at the start is space-marked like any other."""
        return self._from_model[self.model.encode(text)].tolist() if text else []

    def encode_bare(self, word: str) -> list[int]:
        """Ids of a word without the space mark in front."""
        if self._bare is None:
            # Messages laid end to end are merged, the last value wins: normalizer_spec (3) {add_dummy_prefix (3): false}.
            model = self.model.serialized_model_proto() + b"\x1a\x02\x18\x00"
            self._bare = sentencepiece.SentencePieceProcessor(model_proto=model)
        return self._from_model[self._bare.encode(word)].tolist()

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids; special tokens and fillers are left out."""
        end = self.vocabulary.types
        return self.model.decode_pieces([self.vocabulary.pieces[i] for i in ids if len(SPECIALS) <= i < end])


def id_map(model: "sentencepiece.SentencePieceProcessor | Words", vocabulary: Vocabulary) -> np.ndarray:
    """Id of the model -> id of the vocabulary; pieces unseen in training become <unk>."""
    ids = {piece: index for index, piece in enumerate(vocabulary.pieces)}
    pieces = (model.id_to_piece(i) for i in range(model.get_piece_size()))
    return np.array([ids.get(piece, UNK) for piece in pieces], dtype=np.int64)


def blocks(path: Path, lines: int = 20_000) -> Iterator[list[str]]:
    """The lines of a file in blocks, split at \\n alone and without it; memory does not grow with the file."""
    block: list[str] = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            block.append(line.rstrip("\n"))
            if len(block) == lines:
                yield block
                block = []
    if block:
        yield block
