"""Whole words instead of pieces (AGPS table 4), behind the few calls of a SentencePiece model that encoding needs."""

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from tokenizers.pre_tokenizers import Whitespace, WhitespaceSplit

from raretokens.subword.bpe import blocks

UNKNOWN = 0


class Words:
    """A vocabulary of words by falling count (ties: first seen first); id 0 stands for all others.

    tokenise: words and punctuation marks are split apart; without it, text is split at white space alone.
    """

    def __init__(self, words: Iterable[str], tokenise: bool) -> None:
        self.pieces = ["<unk>", *words]
        self.ids = {word: number for number, word in enumerate(self.pieces)}
        self.splitter = Whitespace() if tokenise else WhitespaceSplit()

    @classmethod
    def learn(cls, files: list[Path], size: int | None, tokenise: bool) -> "Words":
        """The `size` most frequent words of the files; all of them without a size."""
        counter, splitter = Counter[str](), cls((), tokenise)
        for block in chain.from_iterable(map(blocks, files)):
            for line in block:
                counter.update(splitter.split(line))
        return cls([word for word, _ in counter.most_common(size) if word != "<unk>"], tokenise)

    def split(self, line: str) -> list[str]:
        return [word for word, _ in self.splitter.pre_tokenize_str(line)]

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [[self.ids.get(word, UNKNOWN) for word in self.split(line)] for line in lines]

    def get_piece_size(self) -> int:
        return len(self.pieces)

    def id_to_piece(self, number: int) -> str:
        return self.pieces[number]

    def unk_id(self) -> int:
        return UNKNOWN
