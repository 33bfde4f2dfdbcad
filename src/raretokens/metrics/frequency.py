"""How frequent the types of a text are."""

import numpy as np

from raretokens.subword.vocabulary import SPACE, SPECIALS, Vocabulary

BOUNDS = {"below_1e-3": 1e-3, "below_1e-4": 1e-4}
WORD = "is"  # whose frequency CosReg section 4 gives as an example


def frequency(vocabulary: Vocabulary) -> tuple[dict[str, float | None], str]:
    """Shares of the types whose relative frequency in the training text is below a bound, and the frequency of one word.

    Markers and fillers are no types here. The word counts with and without the mark of a blank; None where it is no type.
    """
    counts = vocabulary.counts[len(SPECIALS) : vocabulary.types]
    share = counts / max(vocabulary.counts.sum(), 1)
    forms = [i for i, piece in enumerate(vocabulary.pieces) if piece in (WORD, SPACE + WORD)]
    value: dict[str, float | None] = {name: float(np.mean(share < bound)) for name, bound in BOUNDS.items()}
    value[WORD] = float(vocabulary.counts[forms].sum() / vocabulary.counts.sum()) if forms else None
    return value, "of:training-text|types:no-markers"
