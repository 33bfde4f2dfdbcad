"""Punctuation normalised and text tokenised as by the Moses scripts, through sacremoses, by several processes in order.

The recipe is that of the public scripts for WMT14: training text is normalised, freed of control characters and
tokenised with hyphens apart (a @-@ b); of test text only the apostrophe is normalised.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from itertools import islice

import regex
from sacremoses import MosesPunctNormalizer, MosesTokenizer

Pair = tuple[str, str]
BLOCK = 1000  # pairs that a process is given at once
CONTROL = regex.compile(r"\p{C}")


def tokenised(pairs: Iterable[Pair], languages: tuple[str, str], normalise: bool, processes: int) -> Iterator[Pair]:
    """Source and target tokenised, in the order of the pairs; languages are theirs (two letters).

    normalise: training text. Only a few blocks are in memory at any time.
    """
    waiting: deque[Future[list[Pair]]] = deque()
    rest = iter(pairs)
    blocks = iter(lambda: tuple(islice(rest, BLOCK)), ())
    with ProcessPoolExecutor(processes) as pool:
        while True:
            for block in islice(blocks, 2 * processes - len(waiting)):
                waiting.append(pool.submit(_block, block, languages, normalise))
            if not waiting:
                return
            yield from waiting.popleft().result()


def _block(pairs: tuple[Pair, ...], languages: tuple[str, str], normalise: bool) -> list[Pair]:
    return [
        tuple(tokenise(text, lang, normalise) for text, lang in zip(pair, languages, strict=True)) for pair in pairs
    ]


def tokenise(text: str, language: str, normalise: bool) -> str:
    """One sentence, escaped as Moses does (' becomes &apos;)."""
    normaliser, moses = _tools(language)
    text = CONTROL.sub(" ", normaliser.normalize(text)) if normalise else text.replace("\u2019", "'")
    return moses.tokenize(text, aggressive_dash_splits=True, return_str=True)


@cache
def _tools(language: str) -> tuple[MosesPunctNormalizer, MosesTokenizer]:
    return MosesPunctNormalizer(language, perl_parity=True), MosesTokenizer(language)
