"""Comparison of two embeddings: paired intervals of cosines, and the verdict in words."""

import numpy as np
import pytest

from raretokens.tools.measure.comparison import compare
from raretokens.tools.measure.measurement import measure_embedding
from raretokens.tools.measure.model import load_model
from raretokens.tools.measure.row_order import arrange_rows

ROWS, WIDTH = 600, 16


def measured(folder, name: str, table: np.ndarray, words: np.ndarray):
    np.savez(folder / f"{name}.npz", table=table.astype(np.float32), words=words)
    model = load_model(str(folder / f"{name}.npz"))
    (role,) = model.embeddings
    return measure_embedding(model, role, arrange_rows(model, role, is_sorted=True), lambda note: None)


def test_cosines_have_paired_intervals_and_a_verdict(tmp_path):
    """Rare rows share a direction in the first model. The same words may have other rows in the second."""
    random = np.random.default_rng(0)
    rows, words = random.standard_normal((ROWS, WIDTH)), np.array([f"w{id}" for id in range(ROWS)])
    shared = np.where(np.arange(ROWS) > 480, 3.0, 0.3)[:, None] * np.eye(WIDTH)[0]
    first, second = measured(tmp_path, "before", rows + shared, words), measured(tmp_path, "after", rows, words)
    (found,) = compare([first, second])
    by_path = {one.path: one for one in found.differences}
    for path in ("mean_cosine", "cosine.mean.total", "cosine.mean.rare", "rare_freq_cosine"):
        one = by_path[path]
        assert one.low < one.value < one.high < 0, path
    assert found.verdict == "after is more isotropic than before; rare rows gain most."
    assert compare([second, first])[0].verdict == "before is less isotropic than after; rare rows lose most."
    near = measured(tmp_path, "near", rows + 1e-3 * random.standard_normal((ROWS, WIDTH)), words)
    (paired,) = compare([second, near])
    assert paired.verdict == "near and after do not differ in mean cosine beyond chance."
    width = {path: np.ptp(np.quantile(values, (0.025, 0.975))) for path, values in second.bootstrap.items()}
    one = next(one for one in paired.differences if one.path == "mean_cosine")
    assert one.high - one.low < 0.1 * width["mean_cosine"]  # of differences, since both have the same types


def test_replicates_lie_around_the_metric(tmp_path):
    random = np.random.default_rng(1)
    one = measured(tmp_path, "x", random.standard_normal((ROWS, WIDTH)) + 0.5, np.array([f"w{id}" for id in range(ROWS)]))
    value = one.metrics["mean_cosine"][0]
    values = one.bootstrap["mean_cosine"]
    assert values.mean() == pytest.approx(value, abs=2 * values.std() / 10)
