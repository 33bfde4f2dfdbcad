"""Normalise punctuation and tokenise text with sacremoses, like the Moses scripts, in several processes.

As in the public scripts, only apostrophes are normalised in test text. The Recipe of a corpus specifies the steps for training
text.
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
BLOCK = 1000  # pairs per task of a process
CONTROL = regex.compile(r"\p{C}")


@dataclass(frozen=True)
class Recipe:
    """Options of the tokenization of a corpus."""

    normalise: bool  # normalise punctuation and remove control characters in training text
    hyphens: bool  # split hyphens: a-b becomes a @-@ b
    lower: bool = False  # lower-case the tokenised text, and the plain references for scoring

    def plain(self, text: str) -> str:
        """Return the plain text that serves as reference for scoring."""
        return text.lower() if self.lower else text

    def tokenise(self, text: str, language: str, training: bool) -> str:
        """Tokenise one sentence, with characters escaped as by Moses (' becomes &apos;)."""
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
    """Yield tokenised pairs in the original order. Only a few blocks are in memory at a time.

    Args:
        languages: Two-letter languages of source and target.
        training: Whether the pairs are training text.
        processes: Number of worker processes; 1 means the current process.
    """
    rest = iter(pairs)
    blocks = iter(lambda: tuple(islice(rest, BLOCK)), ())
    work = partial(_tokenise_block, languages=languages, recipe=recipe, training=training)
    if processes == 1:
        yield from chain.from_iterable(map(work, blocks))
        return
    waiting: deque[Future[list[Pair]]] = deque()
    # Spawn processes, because a fork of a process with library threads may deadlock.
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
