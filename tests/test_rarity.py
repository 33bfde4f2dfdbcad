"""What alpha makes rare, and the window of counts behind it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny.update import facts

from raretokens.objectives.building import build
from raretokens.objectives.rarity import rare_share, threshold_for
from raretokens.objectives.window import Window

COUNTS = np.array([50, 40, 1000, 500, 100, 40, 20, 10, 10, 5, 5, 0])  # the first two are markers


def test_a_type_is_rare_below_alpha_appearances_an_update():
    types, tokens = rare_share(COUNTS, updates_per_epoch=10, threshold=1.0, specials=2)
    assert types == 3 / 10  # 5, 5 and 0; ten in ten updates are not below one
    assert tokens == pytest.approx(10 / COUNTS.sum())


@given(st.floats(0.01, 0.99), st.integers(1, 50))
def test_the_threshold_of_a_share_gives_at_least_that_share(share, updates):
    threshold = threshold_for(share, COUNTS, updates, 2)
    assert rare_share(COUNTS, updates, threshold, 2).types >= share - 1e-12
    lower = np.nextafter(threshold, 0)  # and the next smaller one less of it
    assert rare_share(COUNTS, updates, lower, 2).types < max(share, rare_share(COUNTS, updates, threshold, 2).types)


@pytest.mark.parametrize(("alpha", "warns"), [(1e-6, True), (100.0, True), (9.0, False)])
def test_an_alpha_that_hardly_gates_or_gates_nearly_all_is_told_with_a_better_one(alpha, warns):
    known = facts()  # counts 78, 75, ..., 3 of 26 types, 4 updates an epoch
    objective = build("agg", known, alpha=alpha)
    (line,) = objective.remarks()
    assert line.startswith("warning: ") == warns == ("would make 20% of the types rare" in line)
    if warns:
        better = float(line.split("; alpha ")[1].split()[0])
        share = build("agg", known, alpha=better).about()["rare_types"]
        assert share == pytest.approx(0.2, abs=0.06)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 8))
def test_the_window_is_a_queue_that_survives_a_resume(sizes, updates):
    window, queue = Window(updates), []
    for number, size in enumerate(sizes):
        entry = torch.arange(size, dtype=torch.int32), torch.full((size,), number, dtype=torch.int32)
        window.push(*entry)
        queue.append(entry)
        if len(window) > updates:
            found, expected = window.pop(), queue.pop(0)
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    again = Window(updates)
    again.restore(window.state())
    assert len(again) == len(queue)
    for expected in queue:
        assert all(torch.equal(a, b) for a, b in zip(again.pop(), expected, strict=True))


def test_the_window_stops_growing_after_an_epoch():
    window, sizes = Window(21), []  # one more before the oldest goes
    for _ in range(200):
        window.push(torch.ones(100, dtype=torch.int32), torch.ones(100, dtype=torch.int32))
        if len(window) > 20:
            window.pop()
        sizes.append(len(window.types))
    assert sizes[0] == sizes[-1]  # allocated once
