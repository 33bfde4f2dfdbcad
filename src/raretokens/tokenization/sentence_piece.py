"""Byte-pair encoding learnt by SentencePiece on text as it is; the vocabulary of a number in params.yaml."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import sentencepiece

from raretokens.errors import UserError
from raretokens.tokenization.packing import blocks


class SentencePiece:
    """A learnt model; a word is marked where it begins, and decoding gives the text back."""

    FILE = "spm.model"
    by_words = False  # a piece of its learning may have blanks inside

    def __init__(self, path: Path) -> None:
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        self.size, self.unknown = self.model.get_piece_size(), self.model.unk_id()
        self._bare: sentencepiece.SentencePieceProcessor | None = None

    @classmethod
    def learn(cls, files: Sequence[Path], size: int, path: Path) -> "SentencePiece":
        """Learn a BPE of that many pieces of all files together and write the model to the path.

        Text is taken as it is (identity normalisation), so decoding gives it back. Sentences come through an iterator and
        the model through a writer: with file names instead, the model would hold their paths and differ from machine to
        machine. SentencePiece keeps the whole text in memory while it learns. Raises UserError for too many pieces.
        """
        with open(path, "wb") as file:
            try:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=chain.from_iterable(chain.from_iterable(map(blocks, files))),
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
        return cls(path)

    def encode(self, lines: list[str]) -> list[list[int]]:
        return self.model.encode(lines)

    def encode_bare(self, word: str) -> list[int]:
        if self._bare is None:
            # Messages laid end to end are merged, the last value wins: normalizer_spec (3) {add_dummy_prefix (3): false}.
            model = self.model.serialized_model_proto() + b"\x1a\x02\x18\x00"
            self._bare = sentencepiece.SentencePieceProcessor(model_proto=model)
        return self._bare.encode(word)

    def decode(self, numbers: Sequence[int]) -> str:
        return self.model.decode(list(numbers))

    def piece(self, number: int) -> str:
        return self.model.id_to_piece(number)
