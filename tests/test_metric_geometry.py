"""Metrics of the embedding table, against double loops in float64 on random tables."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tiny.tables import NAMES, cosine, kept, worlds

from raretokens.metrics import rows
from raretokens.metrics.geometry import row_geometry
from raretokens.metrics.isotropy import (
    group_cosine,
    isotropy,
    isotropy_both_signs,
    log_partitions,
    mean_cosine,
    mean_inner_product,
    rare_freq_cosine,
    rms_norms,
)
from raretokens.metrics.neighbours import (
    mean_ranks,
    named_ranks,
    neighbours,
    rank_correlation,
    same_beginning,
    similarity_curve,
)
from raretokens.metrics.similarity import alignsim
from raretokens.vocabulary import FILLER, FREQ, MED, RARE, Vocabulary


def naive_isotropy(w, signs):
    w = w.astype(np.float64)
    z = []
    for a in np.linalg.svd(w.T @ w)[0].T:
        a = a if sum(row @ a for row in w) >= 0 else -a
        z += [sum(math.exp(row @ (sign * a)) for row in w) for sign in signs]
    return min(z) / max(z)


@settings(deadline=None, max_examples=50)
@given(worlds())
def test_isotropy_is_the_formula_over_the_rows_of_each_group(world):
    table, groups = world
    partitions = log_partitions(table, groups)
    for name in ("total", "freq", "med", "rare"):
        w = table[kept(groups, name)]
        assert isotropy(partitions)[0][name] == pytest.approx(naive_isotropy(w, (1,)), rel=1e-6)
        assert isotropy_both_signs(partitions)[0][name] == pytest.approx(naive_isotropy(w, (1, -1)), rel=1e-6)


@settings(deadline=None, max_examples=50)
@given(worlds(), st.floats(1e-3, 1e3))
def test_isotropy_at_unit_rms_length_is_the_formula_and_ignores_scale(world, scale):
    """Each group is divided by its own root-mean-square length, so its value does not depend on other rows either."""
    table, groups = world[0].astype(np.float64), world[1]
    value, signature = row_geometry(table, groups)["isotropy_unit_rms"]
    scaled = row_geometry(scale * table, groups)
    for name in ("total", "freq", "med", "rare"):
        w = table[kept(groups, name)]
        length = math.sqrt(sum(float(row @ row) for row in w) / len(w))
        assert value[name] == pytest.approx(naive_isotropy(w / length, (1,)), rel=1e-6)
        assert scaled["isotropy_unit_rms"][0][name] == pytest.approx(value[name], rel=1e-9)
        assert scaled["norm_rms"][0][name] == pytest.approx(scale * length)
    assert signature == "rows-over:rms-length-of-group|directions:eigenvectors|sign:sum>=0|rows:no-pad-no-fillers"


def test_isotropy_at_unit_rms_length_of_long_short_and_missing_rows():
    """Rows of length 1,000 have the value of rows of length 1; rows of zeros and an empty group have no value."""
    groups = np.array([FREQ, FILLER, FREQ, RARE, RARE], dtype=np.int8)
    cone = np.array([[1.0, 0.0], [9.0, 9.0], [1000.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    metrics = row_geometry(cone[:3], groups[:3])
    assert metrics["isotropy"][0]["freq"] < 1e-300
    assert metrics["isotropy_unit_rms"][0]["freq"] == pytest.approx(2 / (1 + math.exp(math.sqrt(2))), rel=1e-3)
    assert metrics["isotropy_unit_rms"][0]["rare"] is None and metrics["norm_rms"][0]["rare"] is None
    zeros = row_geometry(cone, groups)
    assert (zeros["isotropy_unit_rms"][0]["rare"], zeros["norm_rms"][0]["rare"]) == (None, 0.0)
    assert rms_norms(np.full((4, 2), 3.0), np.zeros(4, np.int8))[0]["total"] == pytest.approx(math.sqrt(18))


def test_isotropy_of_a_snapshot_is_that_of_its_float16_numbers():
    table, groups = np.random.default_rng(3).normal(0.2, 1, (200, 8)).astype(np.float16), np.zeros(200, np.int8)
    expected = naive_isotropy(table[kept(groups)], (1,))
    assert isotropy(log_partitions(table, groups))[0]["total"] == pytest.approx(expected, rel=1e-9)


def test_isotropy_known_answers_and_invariance():
    groups = np.array([FREQ, FILLER, FREQ, RARE], dtype=np.int8)
    cone = np.array([[1.0, 0.0], [9.0, 9.0], [1.0, 0.0], [1.0, 0.0]])
    one, both = (f(log_partitions(cone, groups))[0] for f in (isotropy, isotropy_both_signs))
    assert one == pytest.approx({"total": 1 / math.e, "freq": 1 / math.e, "med": None, "rare": 1 / math.e})
    assert both["total"] == pytest.approx(math.exp(-2))  # Z(-a) / Z(a)

    random = np.random.default_rng(0)
    groups = np.zeros(60, dtype=np.int8)
    table, turn = random.normal(0.2, 1.0, (60, 5)), np.linalg.qr(random.normal(size=(5, 5)))[0]
    value = isotropy(log_partitions(table, groups))[0]["total"]
    for same in (-table, table @ turn, np.concatenate((table[:2], table[:1:-1]))):
        assert isotropy(log_partitions(same, groups))[0]["total"] == pytest.approx(value)
    assert isotropy(log_partitions(1e-6 * table, groups))[0]["total"] == pytest.approx(1, abs=1e-5)
    assert 0 <= isotropy(log_partitions(1e3 * table, groups))[0]["total"] < 1e-12  # no overflow


@settings(deadline=None)
@given(worlds(), st.floats(0.1, 10))
def test_cosines_are_their_double_loops_and_ignore_scale(world, scale):
    table, groups = world
    every, n = kept(groups), len(kept(groups))
    double = sum(cosine(table[i], table[j]) for i in every for j in every if i != j) / n**2
    assert mean_cosine(scale * table, groups)[0] == pytest.approx(double, abs=1e-6)
    cross = [cosine(table[i], table[j]) for i in kept(groups, "rare") for j in kept(groups, "freq")]
    assert rare_freq_cosine(scale * table, groups)[0] == pytest.approx(np.mean(cross), abs=1e-6)
    products, cosines = mean_inner_product(table, groups)[0], group_cosine(scale * table, groups)[0]
    for name in ("total", "freq", "med", "rare"):
        ids = kept(groups, name)
        alike = [cosine(table[i], table[j]) for i in ids for j in ids if i != j]
        assert cosines[name] == (pytest.approx(np.mean(alike), abs=1e-6) if alike else None)
        pairs = [float(table[i].astype(float) @ table[j].astype(float)) for i in ids for j in ids if i != j]
        assert products[name] == (pytest.approx(np.mean(pairs), abs=1e-6) if pairs else None)


def test_a_row_of_zeros_and_an_empty_group():
    groups = np.array([FREQ, FILLER, FREQ], dtype=np.int8)
    table = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    assert mean_cosine(table, groups)[0] == 0.0
    assert rare_freq_cosine(table, groups)[0] is None


def naive_alignsim(table, links, groups, tau):
    """Both distributions written out, type by type; {group: mean}, and the number of types without a link."""
    every, scores, without = kept(groups), {}, 0
    for i in every:
        others = [j for j in every if j != i]
        a = np.array([links[i, j] + links[j, i] for j in others], dtype=float)
        if not a.sum():
            without += 1
            continue
        b = np.exp([tau * cosine(table[i], table[j]) for j in others])
        scores[i] = cosine(a / a.sum(), b / b.sum())
    names = {"total": every} | {name: kept(groups, name) for name in NAMES}
    return {
        n: np.mean(s) if (s := [scores[i] for i in ids if i in scores]) else None for n, ids in names.items()
    }, without


@settings(deadline=None, max_examples=60)
@given(worlds(), st.integers(0, 10**6), st.sampled_from([1.0, 10.0]))
def test_alignsim_is_the_formula(world, seed, tau):
    table, groups = world
    links = np.random.default_rng(seed).poisson(0.06, (len(table),) * 2)
    expected, without = naive_alignsim(table, links, groups, tau)
    value, signature = alignsim(table, sparse.csr_array(links), groups, tau=tau, rows=3)
    assert {n: v for n, v in value.items() if v is not None} == pytest.approx(
        {n: v for n, v in expected.items() if v is not None}, abs=1e-5
    )
    assert [n for n in value if value[n] is None] == [n for n in expected if expected[n] is None]
    assert f"|without-link:{without}" in signature


def test_alignsim_by_hand():
    """Three types at right angles, a - b linked: the softmax of a is even over b and c, so cos((1, 0), (1, 1))."""
    groups = np.array([FREQ, FILLER, MED, RARE], dtype=np.int8)
    table = np.array([[1.0, 0, 0], [9, 9, 9], [0, 2, 0], [0, 0, 3]])
    links = sparse.csr_matrix(np.array([[7, 0, 2, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 5]]))
    value, signature = alignsim(table, links, groups)
    half = math.sqrt(0.5)
    assert value == {
        "total": pytest.approx(half),
        "freq": pytest.approx(half),
        "med": pytest.approx(half),
        "rare": None,
    }
    assert signature == "tau:10|self:dropped|types:2|without-link:1"


@settings(deadline=None, max_examples=50)
@given(worlds(), st.data())
def test_neighbours_are_those_of_brute_force(world, data):
    table, groups = world
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *(f"\u2581w{i}" if i % 2 else f"w{i}" for i in range(4, len(table)))]
    query = data.draw(st.integers(4, len(table) - 3))
    near, signature = neighbours(table, pieces, groups, [f"w{query}", "absent", "<s>"])
    others = sorted(
        (j for j in kept(groups) if j not in (query, 0, 2, 3)), key=lambda j: -cosine(table[query], table[j])
    )
    assert [piece for piece, *_ in near[f"w{query}"]] == [pieces[j] for j in others[:5]]
    names = {code: name for name, code in NAMES.items()}
    assert [group for *_, group in near[f"w{query}"]] == [names[groups[j]] for j in others[:5]]
    assert [c for _, c, _ in near[f"w{query}"]] == pytest.approx(
        [cosine(table[query], table[j]) for j in others[:5]], abs=1e-6
    )
    assert near["absent"] == near["<s>"] == []
    last = pieces[others[-1]].removeprefix("\u2581")
    named = named_ranks(table, pieces, groups, {f"w{query}": [last, "absent"], "absent": [last]})
    assert named == {f"w{query}": [(last, len(others)), ("absent", None)], "absent": [(last, None)]}
    assert signature == "similarity:cosine|top:5|not-one-piece:absent,<s>"


def test_mean_ranks_are_geometric_means_of_popular_and_of_rare_queries():
    """Six of thirty types are popular: the four specials and two words."""
    types = [f"\u2581w{i}" for i in range(26)]
    counts = np.array([0, 0, 0, 0, *range(260, 0, -10)])
    vocabulary = Vocabulary(("<s>", "<pad>", "</s>", "<unk>", *types), counts, counts, 30)
    groups = np.repeat([FREQ, RARE], [9, 21]).astype(np.int8)
    ranks = {"w0": [("a", 2), ("b", 8), ("c", None)], "w20": [("a", 16)], "absent": [("a", None)]}
    means, signature = mean_ranks(ranks, vocabulary, groups)
    assert means == pytest.approx({"total": 256 ** (1 / 3), "popular": 4.0, "rare": 16.0})
    assert signature == "mean:geometric"
    assert mean_ranks({"absent": [("a", None)]}, vocabulary, groups)[0] == {"total": None, "popular": None, "rare": None}


def test_similarity_over_all_pieces_by_falling_target_frequency():
    random = np.random.default_rng(2)
    counts, types = random.integers(1, 50, 30), [f"w{i}" for i in range(30)]
    vocabulary = Vocabulary(
        (*["<s>", "<pad>", "</s>", "<unk>"], *types[4:28], "<filler0>", "<filler1>"), counts, counts, 2
    )
    table, groups = random.normal(size=(30, 5)), np.repeat([FREQ, RARE, FILLER], [10, 18, 2]).astype(np.int8)
    curve = similarity_curve(table, vocabulary, groups, "w9")
    others = sorted((i for i in range(4, 28) if i != 9), key=lambda i: -counts[i])
    assert [rank for rank, *_ in curve] == list(range(1, 24))
    assert [cos for _, cos, _ in curve] == pytest.approx([cosine(table[9], table[i]) for i in others])
    assert [group for *_, group in curve] == ["freq" if i < 10 else "rare" for i in others]
    assert similarity_curve(table, vocabulary, groups, "absent") == []


def test_the_space_marked_form_of_a_query_wins():
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "hope", "\u2581hope", "x"]
    table, groups = np.eye(7), np.zeros(7, dtype=np.int8)
    table[6] = table[5]
    assert neighbours(table, pieces, groups, ["hope"], top=1)[0]["hope"] == [("x", 1.0, "freq")]


def test_blocks_do_not_change_the_result(monkeypatch):
    random = np.random.default_rng(1)
    table, groups = random.normal(size=(50, 4)), np.arange(50).astype(np.int8) % 3
    links = sparse.random_array((50, 50), density=0.1, rng=random, format="csr")
    whole = [
        isotropy(log_partitions(table, groups))[0],
        mean_cosine(table, groups)[0],
        alignsim(table, links, groups)[0],
    ]
    monkeypatch.setattr(rows.blocks, "__defaults__", (7,))
    assert isotropy(log_partitions(table, groups))[0] == pytest.approx(whole[0])
    assert mean_cosine(table, groups)[0] == pytest.approx(whole[1])
    assert alignsim(table, links, groups, rows=7)[0] == pytest.approx(whole[2])


def test_neighbours_with_the_first_four_letters_of_their_query_are_related():
    listed = [("▁Walks", 0.9, "freq"), ("walker", 0.8, "med"), ("wall", 0.7, "rare"), ("wal", 0.6, "rare")]
    assert same_beginning({"walk": listed}) == (0.5, "characters:4|case:folded")
    assert same_beginning({"walk": []})[0] is None


def test_nearness_that_follows_frequency_has_a_positive_correlation_with_its_rank():
    counts = np.arange(12, 0, -1)
    vocabulary = SimpleNamespace(tokens=[f"w{i}" for i in range(12)], target_counts=counts)
    angle = np.pi / 2 - 0.1 * np.arange(12)  # the rarer, the nearer to the last
    table = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    groups = np.zeros(12, np.int8)
    assert rank_correlation(table, vocabulary, groups, ["w11"])[0] == pytest.approx(1)
    assert rank_correlation(table, vocabulary, groups, ["w4"])[0] == pytest.approx(-1)
    assert rank_correlation(table, vocabulary, groups, ["absent"])[0] is None
