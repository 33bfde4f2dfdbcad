"""Whole words instead of pieces (AGPS table 4)."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import regex
from tokenizers.pre_tokenizers import Whitespace

from raretokens.tokenization.packing import counted

UNKNOWN = 0
SPLITTER = Whitespace()
LETTERS = regex.compile(r"\p{L}+")


class Numbers(dict[str, int]):
    """Of words; UNKNOWN of a word that it does not have."""

    def __missing__(self, word: str) -> int:
        return UNKNOWN


class Words:
    """A vocabulary of words by falling count (ties: first seen first); number 0 stands for all others.

    tokenise: words and punctuation marks are split apart; "letters": runs of letters in lower case, and nothing else; without it,
    text is split at white space alone.
    """

    by_words = False  # to look up a word is all that there is to do

    def __init__(self, words: Iterable[str], tokenise: bool | str) -> None:
        self.pieces = ["<unk>", *words]
        self.numbers = Numbers({word: number for number, word in enumerate(self.pieces)})
        self.size, self.unknown = len(self.pieces), UNKNOWN
        self.split = _letters if tokenise == "letters" else _marks_apart if tokenise else str.split

    @classmethod
    def learn(cls, files: Sequence[Path], size: int | None, tokenise: bool | str, least_count: int = 1) -> "Words":
        """The `size` most frequent words of the files, all of them without a size, that occur `least_count` times."""
        counts = counted(files, cls((), tokenise).split).most_common(size)
        return cls([word for word, count in counts if word != "<unk>" and count >= least_count], tokenise)

    def encode(self, lines: list[str]) -> list[list[int]]:
        find = self.numbers.__getitem__
        return [list(map(find, self.split(line))) for line in lines]

    def piece(self, number: int) -> str:
        return self.pieces[number]


def _marks_apart(line: str) -> list[str]:
    return [word for word, _ in SPLITTER.pre_tokenize_str(line)]


def _letters(line: str) -> list[str]:
    return LETTERS.findall(line.lower())
