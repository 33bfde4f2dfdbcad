"""CV* and power: known answers; numbers that are fixed by construction; the logit-bias baseline as a row."""

import csv
from pathlib import Path

import numpy as np
import pytest
from tiny.claims import AGAINST, SAME, claim, judged, three
from tiny.run_sheet import DECLARED, SMALL, committed, line

from raretokens.claims.comparison import Comparison
from raretokens.claims.intervals import LEVEL, EffectPart, moderated
from raretokens.claims.verdict import UNCHANGED
from reproduction.papers.task_scores import TaskScores
from reproduction.papers.verdicts import comparison_of, reported_effect
from reproduction.report.claims import cv_star

ROOT = Path(__file__).parents[1]


def test_cv_star_of_the_worked_example_of_its_authors():
    """BLEU of a system and six reproductions of it (Belz, Popovic and Mille 2022)."""
    assert cv_star([84.51, 84.50, 87.46, 85.60, 84.20, 86.61, 86.20]) == pytest.approx(1.562, abs=5e-4)
    assert cv_star([3.0, 3.0]) == 0.0
    assert [cv_star(values) for values in ([1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")])] == [None] * 4


def test_cv_star_of_normal_values_is_the_coefficient_of_variation_on_average():
    values = np.random.default_rng(0).normal(100, 10, (4000, 3))
    assert np.mean([cv_star(row) for row in values]) == pytest.approx(10 * (1 + 1 / 12), rel=0.03)


def test_power_is_the_share_of_repetitions_that_show_the_effect(tmp_path):
    """Many rows whose seeds have a standard deviation of 1: an effect of 1.5 with three seeds, then with five."""
    random, rows = np.random.default_rng(0), "abcdefghijklmnopqrstuvwxyz"
    numbers = random.normal(size=(len(rows), 3))
    numbers /= numbers.std(axis=1, ddof=1, keepdims=True)
    values = {run: number for row, own in zip(rows, numbers, strict=True) for run, number in three(row, own).items()}
    judged(tmp_path, AGAINST, values)
    scores = TaskScores({run: line(run[0], seed=int(run[2:] or 1)) for run in values}, task="lm", folder=tmp_path / "lm")
    comparison = Comparison.of_claim(AGAINST, scores)
    powers = [comparison.power(effect, 0.0, seeds) for effect, seeds in ((1.5, 3), (1.5, 5), (-1.5, 3), (0.0, 3))]
    # z tests of two means with a known standard deviation of 1 have 0.451 and 0.660, and t tests a little less
    assert 0.39 < powers[0] < 0.451 and 0.60 < powers[1] < 0.660
    assert powers[2] == powers[0] and powers[3] == pytest.approx(0.025, abs=0.005)
    alone = claim({"runs": ["missing"], "metric": "isotropy.total"}, AGAINST.right.model_dump())
    assert Comparison.of_claim(alone, scores).power(1.5, 0.0, 3) is None
    (tmp_path / "equal").mkdir()
    judged(tmp_path / "equal", AGAINST, dict.fromkeys(values, 0.5))
    equal = TaskScores(scores.lines, task="lm", folder=tmp_path / "equal/lm")
    assert Comparison.of_claim(AGAINST, equal).power(0.0, 0.0, 3) is None


def test_a_run_with_one_seed_has_the_variance_of_the_other_rows_and_no_degree_of_freedom(tmp_path):
    random, rows = np.random.default_rng(1), "abcdefgh"
    numbers = random.normal(size=(len(rows), 3)) * np.geomspace(0.2, 5, len(rows))[:, None]
    values = {run: number for row, own in zip(rows, numbers, strict=True) for run, number in three(row, own).items()}
    del values["b-2"], values["b-3"]
    judged(tmp_path, AGAINST, values)
    scores = TaskScores({run: line(run[0], seed=int(run[2:] or 1)) for run in values}, task="lm", folder=tmp_path / "lm")
    variances = np.delete(numbers.var(1, ddof=1), 1)
    expected = moderated(variances, np.full(7, 2), [EffectPart(variances[0], 2, 1), EffectPart(0.0, 0, 1)])
    found = Comparison.of_claim(AGAINST, scores).seed_posterior
    assert found.reach(LEVEL) == pytest.approx(expected.reach(LEVEL))


@pytest.mark.parametrize("declared", [AGAINST, SAME, AGAINST.replaced(effect="ratio", than=1.0)])
def test_equal_numbers_on_every_seed_decide_only_a_claim_of_no_change(tmp_path, declared):
    verdict = judged(tmp_path, declared, three("a", [0.5, 0.51, 0.52]) | three("b", [0.5, 0.51, 0.52]))
    expected = ("reproduced", "", False) if declared is SAME else ("not testable", UNCHANGED, True)
    assert (verdict.outcome, verdict.reason, verdict.p is None) == expected


def test_numbers_that_are_equal_by_chance_remain_testable(tmp_path):
    for name, a, b in (("mean", [0.4, 0.6, 0.7], [0.6, 0.4, 0.7]), ("one seed", [0.5], [0.5])):
        (tmp_path / name).mkdir()
        assert judged(tmp_path / name, AGAINST, three("a", a) | three("b", b)).outcome == "inconclusive"
    drawn = {run: np.random.default_rng(place).normal(0.5, 0.1, 400) for place, run in enumerate(("a", "a-2", "b", "b-2"))}
    values = {"a": 0.5, "a-2": 0.6, "b": 0.5, "b-2": 0.6}
    (tmp_path / "test set").mkdir()
    assert judged(tmp_path / "test set", AGAINST, values, drawn=drawn).outcome == "inconclusive"


def test_a_claim_can_declare_that_its_number_is_fixed(tmp_path):
    reason = "the method subtracts the mean row"
    fixed = AGAINST.replaced(by_construction=reason)
    verdict = judged(tmp_path, fixed, three("a", [0.9, 0.8, 0.85]) | three("b", [0.5, 0.5, 0.5]))
    assert (verdict.outcome, verdict.reason) == ("not testable", reason)
    assert DECLARED.claims["mu-centering-keeps-rows-apart"].by_construction


def rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader((ROOT / path).read_text(encoding="utf-8").splitlines()))


def test_the_row_of_the_logit_bias_baseline_is_that_of_the_decomposition():
    cells = {(one["row"], one["metric"]): float(one["measured"]) for one in rows("scales/small/reports/tables/agg-3.csv")
             if one["metric"].startswith("ppl.") and one["measured"]}  # fmt: skip
    for equal in ("mean P(rare)", "total perplexity"):
        row = f"MLE + logit bias, same {equal} as AGG"
        name = f"logit bias, 1 parameter, equal {equal}"
        split = rows("scales/small/reports/decomposition.csv")
        (found,) = (one for one in split if (one["run"], one["number"]) == ("wiki-agg", name))
        for metric, column in (("ppl.rare", "measured"), ("ppl.total", "total")):
            assert cells[row, metric] / cells["MLE", metric] == pytest.approx(float(found[column]), rel=5e-3)
        assert cells[row, "ppl.freq"] > cells["MLE", "ppl.freq"]


def test_the_power_of_the_reported_gains_in_bleu():
    """Three seeds would mostly show them; five would mostly miss the differences between methods that the papers report."""
    def power(name: str, seeds: int) -> float:
        own = DECLARED.claims[name]
        return comparison_of(own, committed()[own.task], DECLARED).power(reported_effect(own, DECLARED), own.threshold, seeds)

    assert all(power(f"{name}-improves-bleu", 3) > 0.8 for name in ("agg", "agps", "cosreg", "frage"))
    assert all(power(name, 3) < power(name, 5) < 0.5 for name in ("agg-beats-cosreg", "agps-beats-cosreg"))
    text = "".join(file.read_text(encoding="utf-8") for file in (SMALL / "reports/papers").glob("*.md"))
    shown = power("agg-beats-cosreg", 5)
    assert f"an interval of 5 seeds decides the claim with probability {shown:.2f}." in text
