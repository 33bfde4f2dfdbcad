"""Punctuation normalised and text tokenised by sacremoses, as by the Moses scripts, in several processes.

As in the public scripts, of test text only the apostrophe is normalised; what is done to training text is a corpus's recipe.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from multiprocessing import get_context

import regex
from sacremoses import MosesPunctNormalizer, MosesTokenizer

Pair = tuple[str, str]
BLOCK = 1000  # pairs that a process is given at once
CONTROL = regex.compile(r"\p{C}")


@dataclass(frozen=True)
class Recipe:
    """How the text of a corpus is split into words."""

    normalise: bool  # punctuation of training text, which is freed of control characters too
    hyphens: bool  # apart: a-b becomes a @-@ b
    lower: bool = False  # what is split, and what translations are scored by

    def plain(self, text: str) -> str:
        """Return the text that translations are scored by."""
        return text.lower() if self.lower else text

    def tokenise(self, text: str, language: str, training: bool) -> str:
        """Tokenise one sentence, escaped as Moses does (' becomes &apos;)."""
        normaliser, tokeniser = _models(language)
        if not training:
            text = text.replace("\u2019", "'")
        elif self.normalise:
            text = CONTROL.sub(" ", normaliser.normalize(text))
        return self.plain(tokeniser.tokenize(text, aggressive_dash_splits=self.hyphens, return_str=True))


@cache
def _models(language: str) -> tuple[MosesPunctNormalizer, MosesTokenizer]:
    return MosesPunctNormalizer(language, perl_parity=True), MosesTokenizer(language)


def tokenise_pairs(
    pairs: Iterable[Pair], languages: tuple[str, str], recipe: Recipe, training: bool, processes: int
) -> Iterator[Pair]:
    """Tokenise source and target, in the order of the pairs; languages are theirs (two letters).

    Only a few blocks are in memory at any time. A single process is this one.
    """
    rest = iter(pairs)
    blocks = iter(lambda: tuple(islice(rest, BLOCK)), ())
    work = partial(_tokenise_block, languages=languages, recipe=recipe, training=training)
    if processes == 1:
        yield from chain.from_iterable(map(work, blocks))
        return
    waiting: deque[Future[list[Pair]]] = deque()
    # Spawned, since a fork of a process whose libraries have threads may wait for ever.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        while True:
            waiting.extend(pool.submit(work, block) for block in islice(blocks, 2 * processes - len(waiting)))
            if not waiting:
                return
            yield from waiting.popleft().result()


def _tokenise_block(pairs: tuple[Pair, ...], languages: tuple[str, str], recipe: Recipe, training: bool) -> list[Pair]:
    return [
        tuple(recipe.tokenise(text, lang, training) for text, lang in zip(pair, languages, strict=True))
        for pair in pairs
    ]
