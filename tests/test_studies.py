"""The studies, which run by hand on what a scale has trained: their own arithmetic."""

import numpy as np
import pytest
from pytest import approx


@pytest.fixture(autouse=True)
def scripts(monkeypatch, request):
    monkeypatch.syspath_prepend(request.config.rootpath / "studies")


def test_a_distance_is_to_the_last_rare_piece_before():
    from rare_contexts import distances

    rare = np.array([False, True, False, True, True, False, False])
    assert distances(rare).tolist() == [1, 2, 1, 2, 1, 1, 2]  # the first two look back to the start of the text


def test_a_ratio_is_that_of_the_kept_positions_alone():
    from rare_contexts import ratio

    difference = np.where(np.arange(4000) % 2, np.log(1.5), np.log(3.0))
    assert ratio(difference, np.arange(4000) % 2 == 1) == approx((1.5, 1.5, 1.5))
    middle, low, high = ratio(np.random.default_rng(0).normal(0.1, 1.0, 4000), np.full(4000, True))
    assert low < middle < high < 1.2


def test_a_table_of_random_rows_tells_nothing(monkeypatch):
    import discriminator

    monkeypatch.setattr(discriminator, "ROWS", 200)
    monkeypatch.setattr(discriminator, "AFTER", (1, 20))
    (start, own), (later, _) = discriminator.course({"lr": 1.0}, seed=0)
    assert 30 < start < 70 and 30 < later < 70 and 0.5 < own < 1
