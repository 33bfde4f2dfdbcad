"""The pieces of GPT-2's byte-level BPE (Radford et al. 2019), from the two files that OpenAI published."""

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from raretokens.errors import UserError
from raretokens.tokenization.vocabulary import SPACE

SOURCE, FILES = "gpt2-bpe", ("encoder.json", "vocab.bpe")
BLANK = "\u0120"  # how the published files write the byte of a blank


class GPT2:
    """Text is bytes, so nothing is unknown; a line begins with a blank, as with AGG's tokenizer (metrics of AGG table 5)."""

    FILE = "gpt2.json"
    unknown = None
    by_words = True  # a word with the blank in front is a unit

    def __init__(self, path: Path) -> None:
        self.model = Tokenizer.from_file(str(path))
        self.size = self.model.get_vocab_size()
        self._bare: Tokenizer | None = None

    @classmethod
    def take(cls, folder: Path, path: Path) -> "GPT2":
        """Put the published files of a folder together into one at the path. Raises UserError where they are missing."""
        entries, merges = (folder / name for name in FILES)
        if not (entries.is_file() and merges.is_file()):
            raise UserError(
                f"{folder}: {' or '.join(FILES)} is missing; name the source {SOURCE} under `sources` of params.yaml"
            )
        ids = json.loads(entries.read_text(encoding="utf-8"))
        header, *rows = merges.read_text(encoding="utf-8").rstrip("\n").split("\n")
        model = Tokenizer(models.BPE(vocab=ids, merges=[tuple(row.split(" ")) for row in rows]))
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        model.decoder = decoders.ByteLevel()
        model.save(str(path))
        return cls(path)

    def encode(self, lines: list[str]) -> list[list[int]]:
        """An empty line has no piece: the blank in front would be one."""
        return [cut.ids if line else [] for line, cut in zip(lines, self.model.encode_batch_fast(lines), strict=True)]

    def encode_bare(self, word: str) -> list[int]:
        if self._bare is None:
            self._bare = Tokenizer.from_str(self.model.to_str())
            self._bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return self._bare.encode(word).ids

    def decode(self, numbers: Sequence[int]) -> str:
        return self.model.decode(list(numbers), skip_special_tokens=False).removeprefix(" ")

    def piece(self, number: int) -> str:
        """Bytes as the published files write them, but for the blank, which has SentencePiece's mark."""
        return self.model.id_to_token(number).replace(BLANK, SPACE)
