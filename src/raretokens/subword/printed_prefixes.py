"""Where the prefixes of AGG's table 14 lie in a test text: known by their first words, which begin a line of WikiText."""

from collections.abc import Iterable, Sequence

import numpy as np

from raretokens.subword.vocabulary import EOS, SPACE

FIRST_WORDS = ("A Company, 2nd", "The twelve 45", "Despite the expensive", "Amos was born")  # of samples 1 to 4
LONGEST = 40  # tokens in which the first words end, whatever the pieces


def located(text: np.ndarray, pieces: Sequence[str], needed: int) -> dict[int, int]:
    """Number of a printed sample -> where its prefix begins; those that are not in the text are left out.

    pieces: by id. Blanks do not count, since texts differ in them. needed: tokens that must follow.
    """
    starts = [0, *(np.flatnonzero(text[:-1] == EOS) + 1).tolist()]
    lines = {start: _bare(pieces[i] for i in text[start : start + LONGEST].tolist()) for start in starts}
    places = {
        number: next((start for start, line in lines.items() if line.startswith(_bare(words))), None)
        for number, words in enumerate(FIRST_WORDS, start=1)
    }
    return {number: start for number, start in places.items() if start is not None and start + needed <= len(text)}


def _bare(parts: Iterable[str]) -> str:
    return "".join(part.replace(SPACE, "").replace(" ", "") for part in parts)
