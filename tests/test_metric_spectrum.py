"""What is read off the spectrum of the embedding table, against decompositions of the whole matrix."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from tiny.tables import NAMES, kept, worlds

from raretokens.metrics.geometry import row_geometry
from raretokens.metrics.spectrum import all_but_top, effective_rank, iso_score, projection, singular_values
from raretokens.vocabulary import FILLER, FREQ, MED, PAD, RARE


@settings(deadline=None, max_examples=50)
@given(worlds())
def test_spectrum_is_the_singular_value_decomposition(world):
    table, groups = world
    w = table[kept(groups)].astype(np.float64)
    s, v = np.linalg.svd(w, full_matrices=False)[1:]
    assert singular_values(table, groups)[0] == pytest.approx(s / s[0], abs=1e-6)
    points = projection(table, groups, sample=3)[0]
    assert list(points) == ["freq", "med", "rare"]
    assert all(len(points[name]) == min(3, len(kept(groups, name))) for name in NAMES)
    everything = np.concatenate(list(projection(table, groups, sample=99)[0].values()))
    assert np.abs(everything) == pytest.approx(np.abs(w @ v[:2].T), abs=1e-5)
    assert (everything.sum(axis=0) > -1e-5).all()  # the sign rule
    assert all((points[name] == projection(table, groups, sample=3)[0][name]).all() for name in NAMES)


@settings(deadline=None, max_examples=50)
@given(worlds())
def test_principal_components_are_the_decomposition_of_the_centred_table(world):
    table, groups = world
    w = table[kept(groups)].astype(np.float64)
    centred = w - w.mean(axis=0)
    components = np.linalg.svd(centred)[2][:2].T
    points = np.concatenate(list(projection(table, groups, sample=99, centred=True)[0].values()))
    everything = [i for name in NAMES for i in kept(groups, name)]
    expected = (table[everything].astype(np.float64) - w.mean(axis=0)) @ components
    assert np.abs(points) == pytest.approx(np.abs(expected), abs=1e-4)


@settings(deadline=None, max_examples=50)
@given(worlds())
def test_iso_score_and_effective_rank_are_their_formulas(world):
    table, groups = world
    w = table[kept(groups)].astype(np.float64)
    n = w.shape[1]
    diagonal = np.linalg.eigvalsh(np.cov(w, rowvar=False))  # the covariance of the rows along their principal axes
    normalised = math.sqrt(n) * diagonal / math.sqrt(sum(x * x for x in diagonal))
    defect = math.sqrt(sum((x - 1) ** 2 for x in normalised)) / math.sqrt(2 * (n - math.sqrt(n)))
    used = (n - defect**2 * (n - math.sqrt(n))) ** 2 / n**2
    assert iso_score(table, groups)[0]["total"] == pytest.approx((n * used - 1) / (n - 1), abs=1e-6)
    values = np.linalg.svd(w, compute_uv=False)
    entropy = -sum(x / values.sum() * math.log(x / values.sum()) for x in values if x > 1e-9)
    assert effective_rank(table, groups)[0]["total"] == pytest.approx(math.exp(entropy), rel=1e-4)


def test_iso_score_and_effective_rank_known_answers():
    random, groups = np.random.default_rng(0), np.zeros(20_000, np.int8)
    cloud, line = random.normal(3, 1, (20_000, 10)), np.outer(random.normal(size=20_000), np.arange(1, 11))
    assert iso_score(cloud, groups)[0]["total"] > 0.99  # where its centre lies does not matter
    assert iso_score(line, groups)[0]["total"] == pytest.approx(0, abs=1e-9)
    half = cloud * np.repeat([1, 0], 5)  # 5 of 10 dimensions in use: (5 - 1) / (10 - 1)
    assert iso_score(half, groups)[0]["total"] == pytest.approx(4 / 9, abs=0.01)
    assert iso_score(np.ones((9, 4)), np.zeros(9, np.int8))[0]["total"] is None
    assert effective_rank(line, groups)[0]["total"] == pytest.approx(1, abs=1e-4)
    axes, few = np.array([[4.0, 0], [9, 9], [0, 4], [3, 0]]), np.array([FREQ, FILLER, MED, RARE], np.int8)
    # singular values 5 and 4
    assert effective_rank(axes, few)[0]["total"] == pytest.approx(9 / (5 ** (5 / 9) * 4 ** (4 / 9)))


@settings(deadline=None, max_examples=50)
@given(worlds())
def test_all_but_the_top_leaves_neither_mean_nor_first_direction(world):
    table, groups = world
    every = kept(groups)
    centred = table[every].astype(np.float64) - table[every].astype(np.float64).mean(axis=0)
    u, s, v = np.linalg.svd(centred, full_matrices=False)
    processed, signature = all_but_top(table, groups)
    assert processed[every] == pytest.approx(u[:, 1:] * s[1:] @ v[1:], abs=1e-4)
    assert signature == "without:mean+1-directions"


@pytest.mark.parametrize("width, components", [(8, 1), (140, 1), (160, 2)])
def test_all_but_the_top_takes_a_hundredth_of_the_directions(width, components):
    processed, signature = all_but_top(np.random.default_rng(0).normal(size=(200, width)), np.zeros(200, np.int8))
    assert signature == f"without:mean+{components}-directions"
    assert np.linalg.matrix_rank(processed[np.arange(200) != PAD], tol=1e-3) == width - components


@pytest.mark.parametrize(("width", "ranks"), [(1, []), (2, ["2"]), (3, ["2", "3"]), (4, ["2", "3"])])
def test_a_narrow_matrix_has_only_its_own_singular_values(width, ranks):
    table = np.random.default_rng(width).normal(size=(40, width))
    found, _ = row_geometry(table, np.zeros(40, np.int8))["singular_value"]
    values = np.linalg.svd(table[kept(np.zeros(40, np.int8))], compute_uv=False)
    assert found == pytest.approx({rank: values[int(rank) - 1] / values[0] for rank in ranks})
