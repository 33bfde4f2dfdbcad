"""Define a vocabulary of whole words, and count the words of text files."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import regex
from tokenizers import pre_tokenizers

from raretokens.files import read_blocks

UNKNOWN = "<unk>"
LETTERS = regex.compile(r"\p{L}+")


def read_lines(files: Sequence[Path]) -> Iterator[str]:
    return chain.from_iterable(chain.from_iterable(map(read_blocks, files)))


def count_words(files: Sequence[Path], split: Callable[[str], Iterable[str]]) -> Counter[str]:
    """Count each word of the files. The words are ordered by first occurrence."""
    return Counter(chain.from_iterable(map(split, read_lines(files))))


class Words:
    """Whole words by falling count, as in AGPS table 4. Ties are in order of first occurrence. Id 0 is <unk>.

    tokenise: True splits punctuation from words. "letters" keeps only runs of letters, in lower case. False splits
    only at white space.
    """

    unknown = 0

    def __init__(self, words: Iterable[str], tokenise: bool | str) -> None:
        self.words = [UNKNOWN, *words]
        self.ids = {word: number for number, word in enumerate(self.words)}
        self.size = len(self.words)
        self.split = _split_letters if tokenise == "letters" else _split_punctuation if tokenise else str.split

    @classmethod
    def learn(cls, files: Sequence[Path], size: int | None, tokenise: bool | str, min_count: int = 1) -> "Words":
        """Select the `size` most frequent words of the files (None: all) that occur at least `min_count` times."""
        counts = count_words(files, cls((), tokenise).split).most_common(size)
        return cls([word for word, count in counts if word != UNKNOWN and count >= min_count], tokenise)

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [[self.ids.get(word, self.unknown) for word in self.split(line)] for line in lines]

    def token(self, number: int) -> str:
        return self.words[number]


_WHITESPACE = pre_tokenizers.Whitespace()


def _split_punctuation(line: str) -> list[str]:
    return [word for word, _ in _WHITESPACE.pre_tokenize_str(line)]


def _split_letters(line: str) -> list[str]:
    return LETTERS.findall(line.lower())
