"""What alpha makes rare, and the window of counts behind it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny.update import facts

from raretokens.loss.facts import Facts
from raretokens.loss.facts import facts as facts_of
from raretokens.objectives.agg import Window
from raretokens.objectives.rarity import alpha_for, rare_share, threshold_for
from raretokens.objectives.registry import build

COUNTS = np.array([50, 40, 1000, 500, 100, 40, 20, 10, 10, 5, 5, 0])  # the first two are markers


def test_a_type_is_rare_below_alpha_appearances_an_update():
    types, tokens = rare_share(COUNTS, steps_per_epoch=10, threshold=1.0, specials=2)
    assert types == 3 / 10  # 5, 5 and 0; ten in ten updates are not below one
    assert tokens == pytest.approx(10 / COUNTS.sum())


@given(st.floats(0.01, 0.99), st.integers(1, 50))
def test_the_threshold_of_a_share_gives_at_least_that_share(share, updates):
    threshold = threshold_for(share, COUNTS, updates, 2)
    assert rare_share(COUNTS, updates, threshold, 2).types >= share - 1e-12
    lower = threshold - 1 / updates  # below the next smaller count, and less of it is rare
    assert rare_share(COUNTS, updates, lower, 2).types < max(share, rare_share(COUNTS, updates, threshold, 2).types)


@pytest.mark.parametrize("tied", [0, 1, 7])
@pytest.mark.parametrize("steps", [3, 20, 977])
def test_types_that_occur_equally_often_are_rare_in_training_as_promised(tied, steps):
    """Alpha lies so far from their mean count that float32, in which AGG computes, separates them."""
    counts = torch.cat((torch.full((300,), tied), torch.arange(tied + 1, tied + 701)))
    known = facts_of(counts, width=4, steps_per_epoch=steps)
    objective = build("agg", known, alpha=alpha_for(known))
    whole, rest = counts // steps, counts % steps
    for step in range(steps):
        objective.begin_step(whole + (step < rest))
    assert objective.rare.sum() == 300 and objective.about()["rare_types"] == 0.3


@pytest.mark.parametrize("each", [1, 2**24 + 1, 2**30, 2**31 - 1])
def test_an_epoch_of_any_length_is_counted_and_gated_as_its_counts_say(each):
    """Sums over a window beyond 32 bits, also from a state in which the former code kept 32 bits."""
    steps = 8
    step = torch.tensor([each, each, max(each // 3, 1), 1, 0])
    known = facts_of(step * steps, width=4, steps_per_epoch=steps)
    objective = build("agg", known, alpha=2.0)
    for number in range(3 * steps):
        if number == 1:
            state = {name: value.int() if name == "appearances" else value for name, value in objective.state_dict().items()}
            objective = build("agg", known, alpha=2.0)
            objective.load_state_dict(state)
        objective.begin_step(step)
        seen = [min(number + 1, steps) * count for count in step.tolist()]
        assert objective.appearances.tolist() == seen
        rare = [count < 2 for count in step.tolist()]
        assert objective.rare.tolist() == rare
        mean = sum(count for count, is_rare in zip(seen, rare, strict=True) if is_rare) / sum(rare)
        towards = [min(count / (mean + 1e-7), 1.0) if is_rare else 1.0 for count, is_rare in zip(seen, rare, strict=True)]
        assert objective.towards_rare.tolist() == pytest.approx(towards, rel=1e-6)
        assert objective.towards_nonrare.tolist() == [min(count, 1.0) for count in step.tolist()]


def test_a_step_with_more_of_a_type_than_the_window_can_hold_is_refused():
    objective = build("agg", facts_of([5, 1], width=4, steps_per_epoch=1), alpha=1.0)
    with pytest.raises(ValueError, match="2147483648 targets of one type in a training step; allowed: 2147483647"):
        objective.begin_step(torch.tensor([2**31, 1]))


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


def told(types: int, updates: int) -> Facts:
    """Of a text that has each of so many types about once an update."""
    return facts_of(torch.full((types,), updates), width=4, steps_per_epoch=updates)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 8))
def test_the_window_is_a_queue_that_survives_a_resume(sizes, updates):
    """Also where updates have more types than the text let expect, and where the ring's end lies inside an update."""
    window, queue = Window(told(4, updates)), []
    for number, size in enumerate(sizes):
        entry = torch.arange(size, dtype=torch.int32), torch.full((size,), number, dtype=torch.int32)
        window.push(*entry)
        queue.append(entry)
        if len(window) > updates:
            found, expected = window.pop(), queue.pop(0)
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    again = Window(told(4, updates))
    again.restore(window.state(), torch.device("cpu"))
    assert len(again) == len(queue)
    for expected in queue:
        assert all(torch.equal(a, b) for a, b in zip(again.pop(), expected, strict=True))


def test_the_window_is_one_ring_that_is_allocated_once():
    random = torch.Generator().manual_seed(0)
    targets = (torch.rand(200, 256, generator=random) ** 3 * 400).long()
    counts = torch.bincount(targets.flatten(), minlength=400)
    window, places = Window(facts_of(counts, width=4, steps_per_epoch=20)), set()
    for update in [*targets, *targets.flip(0)]:
        types, seen = update.unique(return_counts=True)
        window.push(types.int(), seen.int())
        if len(window) > 20:
            window.pop()
        places.add((window.ring.data_ptr(), window.ring.shape))
    assert len(places) == 1


def test_alpha_from_a_wanted_share_of_rare_types():
    counts = torch.arange(100).where(torch.arange(100) < 90, 0)
    known = facts_of(counts, width=4, steps_per_epoch=10, types=90, markers=[0, 1, 89], specials=0)
    for share in (0.1, 0.25, 0.5):
        objective = build("agg", known, alpha=alpha_for(known, share))
        assert objective.about()["rare_types"] == pytest.approx(share, abs=1 / 87)
    objective.begin_step(known.counts)  # ids 0 and 1 hardly occur, but are markers
    assert not objective.rare[[0, 1, 89]].any()
    with pytest.raises(ValueError, match="share 1.2 is not allowed: should lie between 0 and 1"):
        alpha_for(known, 1.2)
