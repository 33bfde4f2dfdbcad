"""Small random embedding tables, and the rows of them that count, written out."""

import math

import numpy as np
from hypothesis import strategies as st

from raretokens.vocabulary import FILLER, FREQ, MED, PAD, RARE

NAMES = {"freq": FREQ, "med": MED, "rare": RARE}


@st.composite
def worlds(draw):
    """A table of 4 specials and some types of each group, and 2 fillers; a cone, so that nothing is near isotropy."""
    sizes = draw(st.tuples(*[st.integers(1, 9)] * 3))
    groups = np.repeat([FREQ, FREQ, MED, RARE, FILLER], [4, *sizes, 2]).astype(np.int8)
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    table = random.normal(0.3, 1.0, (len(groups), draw(st.integers(2, 6)))).astype(np.float32)
    table[PAD], table[-2:] = 50.0, -50.0  # must not matter
    return table, groups


def kept(groups, name="total"):
    return [i for i, g in enumerate(groups) if i != PAD and g != FILLER and (name == "total" or g == NAMES[name])]


def cosine(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))
