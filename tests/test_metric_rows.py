"""Rows of an embedding matrix by how often they are trained: whitening by frequency, length."""

import numpy as np
import pytest

from raretokens.metrics.frequency import norm_by_frequency, whitened, zipfian_whitening
from raretokens.vocabulary import FILLER

RNG = np.random.default_rng(0)


def example(rows: int = 60, width: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table whose last two rows are fillers, counts, groups."""
    groups = np.repeat(np.array([0, 1, 2, FILLER], np.int8), (20, 20, 18, 2))
    counts = np.array([0, 0, *RNG.integers(0, 90, rows - 4), 0, 0])
    return RNG.normal(0.5, 1, (rows, width)), counts, groups


def test_zipfian_whitening_makes_the_text_s_covariance_the_identity():
    table, counts, groups = example()
    rows, _ = whitened(table, counts, groups, np.arange(2, 58))
    share = counts[2:58] / counts.sum()
    mean = share @ rows
    covariance = (rows - mean).T @ (share[:, None] * (rows - mean))
    assert np.abs(mean).max() < 1e-12 and np.abs(covariance / covariance[0, 0] - np.eye(5)).max() < 1e-12
    assert np.sum(rows**2) == pytest.approx(np.sum(table[2:58] ** 2))
    _, singular, right = np.linalg.svd(
        np.sqrt(share)[:, None] * (table[2:58] - share @ table[2:58]), full_matrices=False
    )
    expected = (table[2:58] - share @ table[2:58]) @ right.T / singular
    assert np.abs(np.abs(rows @ np.linalg.pinv(expected) @ expected) - np.abs(rows)).max() < 1e-9


def test_a_direction_in_which_types_differ_little_is_kept():
    table, counts, groups = example()
    table[:, 4] = table[:, 3] + 1e-5 * table[:, 4]
    assert "|directions:5|" in whitened(table, counts, groups, np.arange(2, 58))[1]


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
def test_directions_in_which_types_do_not_differ_are_left_out_at_any_scale(scale):
    table, counts, groups = example()
    table[:, 4] = table[:, 3]
    assert (
        whitened(scale * table, counts, groups, np.arange(2, 58))[1] == "zipfian-whitening|directions:4|scale:as-before"
    )


@pytest.mark.parametrize("kind", ["zeros", "one type occurs", "different"])
def test_whitening_has_no_metrics_where_no_two_types_differ(kind):
    table, counts, groups = example()
    if kind == "zeros":
        table[:] = 0
    elif kind == "one type occurs":
        counts[6:] = counts[2:5] = 0
    assert set(zipfian_whitening(table, counts, groups)) == (
        {"zipfian.isotropy", "zipfian.mean_cosine"} if kind == "different" else set()
    )


def test_length_against_log_frequency():
    table, counts, groups = example()
    value, _ = norm_by_frequency(table, counts, groups)
    seen = np.flatnonzero(counts)
    length = np.linalg.norm(table, axis=1)
    assert value["pearson"] == pytest.approx(np.corrcoef(length[seen], np.log(counts[seen]))[0, 1])
    assert value["rare"] == pytest.approx(length[40:58].mean())
    assert value["freq"] == pytest.approx(np.delete(length[:20], 1).mean())  # <pad> is no row
    assert norm_by_frequency(1e-3 * table, counts, groups)[0]["pearson"] == pytest.approx(value["pearson"])


def test_length_has_no_correlation_with_equal_counts():
    table, counts, groups = example()
    assert norm_by_frequency(table, np.minimum(counts, 1), groups)[0]["pearson"] is None
