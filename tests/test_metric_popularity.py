"""Does the table tell popular from rare types: against discriminators fitted one by one, and known answers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tiny.tables import cosine, kept, worlds

from raretokens.loss.facts import Facts
from raretokens.metrics.frequency import FOLDS, PENALTY, folds_of, norms, popular_types, popularity_accuracy
from raretokens.metrics.geometry import frequency_geometry
from raretokens.metrics.neighbours import rare_among_neighbours_of_rare
from raretokens.objectives.registry import build
from raretokens.vocabulary import FILLER, FREQ, PAD, RARE


def falling(n):
    """Counts of a vocabulary whose ids are sorted."""
    return np.arange(n, 0, -1)


def fitted(rows, is_popular):
    """Weights and bias of the discriminator of these rows, as its formula reads, in float64."""
    sign, width = np.where(is_popular, 1.0, -1.0), rows.shape[1]

    def loss(v):
        entropy = np.logaddexp(0, -sign * (rows @ v[:-1] + v[-1]))
        return (entropy[is_popular].mean() + entropy[~is_popular].mean()) / 2 + PENALTY / 2 * (v[:-1] ** 2).sum()

    return minimize(loss, np.zeros(width + 1), method="BFGS", options={"gtol": 1e-7}).x


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(30, 90), st.integers(1, 4), st.floats(0, 2))
def test_accuracy_and_auc_are_those_of_discriminators_fitted_one_by_one(seed, n, width, apart):
    random, groups = np.random.default_rng(seed), np.zeros(n, np.int8)
    groups[-2:] = FILLER
    table = random.normal(3, 2, (n, width)).astype(np.float32)
    table[: n // 5, 0] += apart
    table[[PAD, -2, -1]] = 1e4  # must not matter
    ids = np.array(kept(groups))
    is_popular = ids < round(0.2 * (n - 2))
    rows = table[ids].astype(np.float64)
    rows, fold, scores = (rows - rows.mean(axis=0)) / rows.std(axis=0), folds_of(is_popular, 7), np.zeros(len(ids))
    value, signature = popularity_accuracy(table, falling(n), groups, seed=7)
    if is_popular.sum() < FOLDS:
        assert value == {"accuracy": None, "auc": None}
        return
    auc, ties = [], []
    for part in range(FOLDS):
        out = fold == part
        v = fitted(rows[~out], is_popular[~out])
        scores[out] = rows[out] @ v[:-1] + v[-1]
        pairs = [(a, b) for a in scores[out & is_popular] for b in scores[out & ~is_popular]]
        auc.append(np.mean([(a > b) + (a == b) / 2 for a, b in pairs]))
        ties.append(np.mean([abs(a - b) < 1e-5 for a, b in pairs]))  # where the last digits decide
    if (np.abs(scores) > 1e-5).all():
        right = (scores > 0) == is_popular
        expected = 50 * (right[is_popular].mean() + right[~is_popular].mean())
        assert value["accuracy"] == pytest.approx(expected)
    assert value["auc"] == pytest.approx(np.mean(auc), abs=np.mean(ties) + 1e-9)
    assert signature == "popular:0.2|logistic|l2:0.01|folds:5|seed:7|rows:no-pad-no-fillers"


def test_a_separable_table_and_a_random_one():
    random, groups, n = np.random.default_rng(0), np.zeros(3000, np.int8), 3000
    table = random.normal(size=(n, 20))
    noise = popularity_accuracy(table, falling(n), groups)[0]
    assert noise["accuracy"] == pytest.approx(50, abs=4) and noise["auc"] == pytest.approx(0.5, abs=0.04)
    table[: n // 5] += random.normal(size=20) * 5
    assert popularity_accuracy(table, falling(n), groups)[0] == {"accuracy": 100.0, "auc": 1.0}
    control, signature = popularity_accuracy(table, falling(n), groups, shuffled=True)
    assert control["accuracy"] == pytest.approx(50, abs=4) and control["auc"] == pytest.approx(0.5, abs=0.04)
    assert signature.startswith("popular:0.2-shuffled|")
    # The scale, a shift and a constant column change nothing, and neither does the order of the ids.
    order = np.concatenate((np.arange(4), 4 + random.permutation(n - 4)))
    moved = np.column_stack((1e-3 * table[order] + 7, np.ones(n)))
    assert popularity_accuracy(moved, falling(n)[order], groups)[0]["accuracy"] == 100.0
    # One column of normal numbers, two deviations apart: the best line lies halfway, so both classes have Phi(1).
    line = random.normal(size=(n, 1))
    line[: n // 5] += 2
    value = popularity_accuracy(line, falling(n), groups)[0]
    assert value["accuracy"] == pytest.approx(84.1, abs=2) and value["auc"] == pytest.approx(0.921, abs=0.02)


def test_the_probes_of_a_score_file_are_of_a_fifth_a_tenth_and_a_quarter():
    random, groups = np.random.default_rng(2), np.repeat([FREQ, RARE], [40, 60]).astype(np.int8)
    table, counts = random.normal(size=(100, 4)), falling(100)
    table[:20, 0] += 2
    found = frequency_geometry(table, groups, counts)
    for name, share in (("frequency_probe", 0.2), ("frequency_probe_10", 0.1), ("frequency_probe_25", 0.25)):
        assert found[name] == popularity_accuracy(table, counts, groups, popular=share)
    assert found["frequency_probe_shuffled"][0]["accuracy"] < found["frequency_probe"][0]["accuracy"]


def test_many_rows_are_thinned_evenly_and_the_signature_says_so():
    random, groups = np.random.default_rng(1), np.zeros(402, np.int8)
    table = random.normal(size=(402, 3))
    table[:80] += 1
    value, signature = popularity_accuracy(table, falling(402), groups, limit=101)
    every = np.array(kept(groups))
    thin = np.concatenate((every[:1], [PAD], every[4::4]))  # every fourth; <pad> keeps its place, and does not count
    popular = 21 / len(thin)  # ids below 80 in the whole table
    part = popularity_accuracy(table[thin], falling(len(thin)), groups[thin], popular=popular)
    assert value == pytest.approx(part[0], rel=1e-6)
    assert signature == part[1].replace(f"popular:{popular:g}", "popular:0.2") + "|evenly-spaced:101"
    assert "evenly" not in popularity_accuracy(table, falling(402), groups, limit=401)[1]


def test_wide_rows_are_thinned_so_that_no_more_numbers_are_read():
    random, groups = np.random.default_rng(1), np.zeros(60, np.int8)
    signatures = {width: popularity_accuracy(random.normal(size=(60, width)), falling(60), groups, limit=40)[1].split("|")[-1]
                  for width in (1024, 2048)}  # fmt: skip
    assert signatures == {1024: "evenly-spaced:40", 2048: "evenly-spaced:20"}


@settings(deadline=None, max_examples=30)
@given(worlds(), st.sampled_from([0.1, 0.2, 0.25]))
def test_popular_types_are_those_that_frage_plays_with(world, share):
    table, groups = world
    counts, types = falling(len(groups)), int((groups != FILLER).sum())
    facts = Facts(torch.tensor(counts), torch.tensor(groups == RARE), types, 4, PAD, 10, table.shape[1])
    objective = build("frage", facts, popular=share)
    popular = popular_types(counts, groups, share)
    assert [i for i in kept(groups) if popular[i]] == objective.popular_rows.tolist()
    assert [i for i in kept(groups) if not popular[i]] == objective.rare_rows.tolist()
    # Ids that are not sorted: the counts decide, though specials come first.
    counts = np.random.default_rng(types).permutation(counts)
    order = sorted(range(types), key=lambda i: (i >= 4, -counts[i]))
    assert set(np.flatnonzero(popular_types(counts, groups, share))) == set(order[: round(share * types)])
    if chosen := set(order[: round(share * types)]) - {PAD}:
        objective = build("frage", replace(facts, counts=torch.tensor(counts)), popular=share)
        assert set(objective.popular_rows.tolist()) == chosen


@settings(deadline=None, max_examples=50)
@given(worlds())
def test_neighbours_of_rare_types_are_those_of_brute_force(world):
    table, groups = world
    types = [i for i in kept(groups) if i > 3]
    rare = {i for i in types if i >= round(0.2 * (groups != FILLER).sum())}
    near = {q: sorted((i for i in types if i != q), key=lambda i: -cosine(table[q], table[i])) for q in rare}
    value, signature = rare_among_neighbours_of_rare(table, falling(len(groups)), groups, top=3)
    assert value["rare"] == pytest.approx(np.mean([i in rare for q in rare for i in near[q][:3]]))
    assert value["nearest"] == pytest.approx(np.mean([near[q][0] in rare for q in rare]))
    assert value["chance"] == pytest.approx((len(rare) - 1) / (len(types) - 1))
    assert signature == f"similarity:cosine|top:3|popular:0.2|queries:{len(rare)}"


def test_neighbours_of_rare_types_known_answers():
    random, groups, n = np.random.default_rng(0), np.zeros(1004, np.int8), 1004
    table = random.normal(size=(n, 30))
    value, signature = rare_among_neighbours_of_rare(table, falling(n), groups)
    assert value == pytest.approx({"rare": 0.8, "nearest": 0.8, "chance": 0.8}, abs=0.06)
    assert signature.endswith("|queries:500")
    table += np.where(np.arange(n) < 201, 9, -9)[:, None]  # popular types point elsewhere
    value, signature = rare_among_neighbours_of_rare(table, falling(n), groups, queries=150)
    assert value == {"rare": 1.0, "nearest": 1.0, "chance": pytest.approx(802 / 999)}
    assert signature.endswith("|queries:150")
    assert rare_among_neighbours_of_rare(table, falling(n), groups, popular=1.0)[0]["rare"] is None
    few = np.array([FREQ] * 5, np.int8)
    assert rare_among_neighbours_of_rare(table[:5], falling(5), few)[0]["rare"] is None


def test_lengths_are_those_of_popular_and_of_all_other_rows():
    table = np.arange(12.0)[:, None] * [[0.6, 0.8]]  # row i is i long
    groups, counts = np.full(12, FREQ), np.arange(12, 0, -1)
    groups[11], counts[PAD] = FILLER, 0
    assert norms(table, counts, groups)[0] == pytest.approx({"popular": (0 + 2) / 2, "rare": np.mean(range(3, 11))})
