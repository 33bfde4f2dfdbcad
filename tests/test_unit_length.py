"""Whether I(W) at unit RMS length agrees with a verdict on I(W): from scores of invented runs."""

import csv

import pytest
from tiny.claims import AGAINST, SAME, claim, world
from tiny.run_sheet import DECLARED

from raretokens.claims.verdict import Verdict
from reproduction.papers.verdicts import judge
from reproduction.report.claims import main_claims, to_csv

LOW, HIGH, APART = [0.50, 0.51, 0.49], [0.90, 0.88, 0.89], [0.56, 0.40, 0.70]
VALUE = claim({"runs": ["a"], "metric": "isotropy.total"}, effect="value", than=0.7)
CURVE = claim({"runs": ["a"], "metric": "isotropy.total", "at": "last"}, effect="value", than=0.7)


def judged(folder, declared, raw: dict[str, list[float]], at_unit: dict[str, list[float | None]], curves: str = "") -> Verdict:
    """The verdict on three seeds of runs a and b, with both versions of I(W)."""
    scores, seeds = {}, {}
    for run, values in raw.items():
        for seed, value in enumerate(values, 1):
            name = run if seed == 1 else f"{run}-{seed}"
            other = at_unit.get(run, [None] * 3)[seed - 1]
            scores[name] = {"metrics": {"isotropy": {"total": value}, "isotropy_unit_rms": {"total": other}}}
            seeds[name] = seed
    return judge("c", declared, world(folder, scores, seeds, curves), DECLARED)


@pytest.mark.parametrize(
    ("declared", "raw", "at_unit", "outcome", "expected"),
    [
        (AGAINST, (HIGH, LOW), (HIGH, LOW), "reproduced", "agrees"),
        (AGAINST, (HIGH, LOW), (LOW, HIGH), "reproduced", "disagrees"),
        (AGAINST, (LOW, HIGH), (LOW, HIGH), "contradicted", "agrees"),
        (AGAINST, (HIGH, LOW), (APART, LOW), "reproduced", "inconclusive"),
        (AGAINST, (APART, LOW), (HIGH, LOW), "inconclusive", "inconclusive"),
        (AGAINST, (HIGH, LOW), (HIGH, [None] * 3), "reproduced", "not recorded"),
        (AGAINST, (HIGH, LOW), (HIGH[:1] + [None] * 2, LOW[:1] + [None] * 2), "reproduced", "inconclusive"),  # one seed
        (AGAINST, (HIGH, LOW), ([0.9] * 3, [0.5] * 3), "reproduced", "inconclusive"),  # no variance
        (SAME, (HIGH, HIGH[::-1]), (HIGH, LOW), "reproduced", "disagrees"),
        (VALUE, (HIGH, LOW), (HIGH, LOW), "reproduced", "agrees"),
        (VALUE, (HIGH, LOW), (LOW, LOW), "reproduced", "disagrees"),
    ],
)
def test_the_same_comparison_at_unit_length(tmp_path, declared, raw, at_unit, outcome, expected):
    verdict = judged(tmp_path, declared, dict(zip("ab", raw, strict=True)), dict(zip("ab", at_unit, strict=True)))
    assert (verdict.outcome, verdict.unit_length) == (outcome, expected)


def test_a_curve_of_isotropy_has_no_points_at_unit_length(tmp_path):
    verdict = judged(tmp_path, CURVE, {"a": HIGH}, {"a": HIGH}, curves="isotropy,total,1,0.9\n")
    assert (verdict.effect.value, verdict.unit_length) == (0.9, "not recorded")


def test_only_tested_claims_on_isotropy_have_it_in_both_tables(tmp_path):
    both = {"a": HIGH, "b": LOW}
    verdict = judged(tmp_path, AGAINST.replaced(main="m"), both, both)
    (row,) = csv.DictReader(to_csv([verdict]).splitlines())
    (main,) = csv.DictReader(main_claims([verdict]).splitlines())
    assert row["unit_length"] == main["unit_length"] == "agrees"
    (tmp_path / "other").mkdir()
    other = claim({"runs": ["a"], "metric": "mean_cosine"}, {"runs": ["b"], "metric": "mean_cosine"})
    scores = {name: {"metrics": {"mean_cosine": 0.5}} for name in "ab"}
    assert judge("c", other, world(tmp_path / "other", scores), DECLARED).unit_length is None
    (tmp_path / "none").mkdir()
    assert judge("c", AGAINST, world(tmp_path / "none", scores), DECLARED).unit_length is None  # not run
