"""Punctuation normalised and text tokenised as by the Moses scripts, through sacremoses, by several processes in order.

As in the public scripts, of test text only the apostrophe is normalised; what is done to training text is a corpus's recipe.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice

import regex
from sacremoses import MosesPunctNormalizer, MosesTokenizer

Pair = tuple[str, str]
BLOCK = 1000  # pairs that a process is given at once
CONTROL = regex.compile(r"\p{C}")


@dataclass(frozen=True)
class Recipe:
    """How the text of a corpus is cut into words."""

    normalise: bool  # punctuation of training text, which is freed of control characters too
    hyphens: bool  # apart: a-b becomes a @-@ b
    lower: bool = False  # what is cut, and what translations are scored by

    def plain(self, text: str) -> str:
        """Text that translations are scored by."""
        return text.lower() if self.lower else text

    def tokenise(self, text: str, language: str, training: bool) -> str:
        """One sentence, escaped as Moses does (' becomes &apos;)."""
        normaliser, moses = _tools(language)
        if not training:
            text = text.replace("\u2019", "'")
        elif self.normalise:
            text = CONTROL.sub(" ", normaliser.normalize(text))
        return self.plain(moses.tokenize(text, aggressive_dash_splits=self.hyphens, return_str=True))


def tokenised(
    pairs: Iterable[Pair], languages: tuple[str, str], recipe: Recipe, training: bool, processes: int
) -> Iterator[Pair]:
    """Source and target tokenised, in the order of the pairs; languages are theirs (two letters).

    Only a few blocks are in memory at any time.
    """
    waiting: deque[Future[list[Pair]]] = deque()
    rest = iter(pairs)
    blocks = iter(lambda: tuple(islice(rest, BLOCK)), ())
    with ProcessPoolExecutor(processes) as pool:
        while True:
            for block in islice(blocks, 2 * processes - len(waiting)):
                waiting.append(pool.submit(_block, block, languages, recipe, training))
            if not waiting:
                return
            yield from waiting.popleft().result()


def _block(pairs: tuple[Pair, ...], languages: tuple[str, str], recipe: Recipe, training: bool) -> list[Pair]:
    return [
        tuple(recipe.tokenise(text, lang, training) for text, lang in zip(pair, languages, strict=True))
        for pair in pairs
    ]


@cache
def _tools(language: str) -> tuple[MosesPunctNormalizer, MosesTokenizer]:
    return MosesPunctNormalizer(language, perl_parity=True), MosesTokenizer(language)
