"""The prefixes that AGG table 14 continues, in a text."""

from collections.abc import Iterable, Sequence

import numpy as np

from raretokens.vocabulary import EOS, SPACE

FIRST_WORDS = ("A Company, 2nd", "The twelve 45", "Despite the expensive", "Amos was born")  # AGG table 14, samples 1 to 4
LONGEST = 40  # tokens that suffice for the first words under any tokenization


def find_paper_prefixes(text: np.ndarray, tokens: Sequence[str], needed: int) -> dict[int, int]:
    """Find where the prefixes of AGG table 14 begin in a test text, by their first words.

    Args:
        text: Ids of the test text.
        tokens: Tokens of the vocabulary, by id. Blanks are ignored, because versions of the text differ in them.
        needed: Number of tokens that the text must have from the start of the prefix on.
    Returns:
        Sample number in the table -> position of its prefix. Prefixes that the text lacks are left out.
    """
    starts = [0, *(np.flatnonzero(text[:-1] == EOS) + 1).tolist()]
    lines = {start: _without_blanks(tokens[i] for i in text[start : start + LONGEST].tolist()) for start in starts}
    found = {
        number: next((start for start, line in lines.items() if line.startswith(_without_blanks(words))), None)
        for number, words in enumerate(FIRST_WORDS, start=1)
    }
    return {number: start for number, start in found.items() if start is not None and start + needed <= len(text)}


def _without_blanks(parts: Iterable[str]) -> str:
    return "".join(part.replace(SPACE, "").replace(" ", "") for part in parts)
