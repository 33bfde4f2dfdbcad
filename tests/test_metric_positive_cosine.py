"""The share of pairs of rows with a positive cosine, against double loops in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny.tables import cosine, kept, worlds

from raretokens.metrics import isotropy as module
from raretokens.metrics.isotropy import positive_cosine
from raretokens.vocabulary import FILLER, FREQ, MED, RARE


@settings(deadline=None, max_examples=50)
@given(worlds(), st.integers(1, 40))
def test_the_share_is_its_double_loop(world, block):
    table, groups = world
    table = table - np.float32(0.3)  # about half of the pairs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        value, signature = positive_cosine(table, groups)
    for name in ("total", "freq", "med", "rare"):
        ids = kept(groups, name)
        pairs = [cosine(table[i], table[j]) > 0 for i in ids for j in ids if i != j]
        assert value[name] == (pytest.approx(np.mean(pairs)) if pairs else None)
    assert signature == "pairs:distinct|rows:no-pad-no-fillers"


def test_known_answers():
    groups = np.array([FREQ, FILLER, FREQ, MED, MED, RARE], dtype=np.int8)
    table = np.array([[1.0, 0, 0], [9, 9, 9], [2, 1, 0], [0, 1, 0], [0, 0, 3], [-1, 0, 0]])
    # freq with freq, and (2, 1, 0) with (0, 1, 0); right angles are not positive
    assert positive_cosine(table, groups)[0] == {"total": 0.2, "freq": 1.0, "med": 0.0, "rare": None}
    table[0] = 0  # no direction
    assert positive_cosine(table, groups)[0]["total"] == 0.1
    random, many = np.random.default_rng(0).normal(size=(2000, 16)), np.zeros(2000, np.int8)
    assert positive_cosine(random, many)[0]["total"] == pytest.approx(0.5, abs=0.02)
    assert positive_cosine(random + 9, many)[0]["total"] == 1.0


def test_large_groups_are_thinned_evenly_and_the_signature_says_so():
    groups = np.array([FREQ, FILLER, *[FREQ] * 60, *[RARE] * 5], dtype=np.int8)
    table = np.random.default_rng(1).normal(size=(len(groups), 3))
    freq, rare = kept(groups, "freq"), kept(groups, "rare")
    thin = [freq[i] for i in range(0, 61, 4)]
    value, signature = positive_cosine(table, groups, limit=16)
    for name, ids in (("freq", thin), ("rare", rare)):
        pairs = [cosine(table[i], table[j]) > 0 for i in ids for j in ids if i != j]
        assert value[name] == pytest.approx(np.mean(pairs))
    assert signature == "pairs:distinct|rows:no-pad-no-fillers|evenly-spaced:16"
