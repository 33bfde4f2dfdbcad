"""Preconditions: a claim is tested only where the runs show what the paper explains."""

import pytest
from tiny.claims import AGAINST, world

from raretokens.claims.comparison import Comparison
from reproduction.papers.claim import Precondition
from reproduction.papers.verdicts import unmet

B_LIES = {"run": ["b"], "metric": "isotropy.total"}  # at 0.5


@pytest.mark.parametrize(
    ("need", "is_met"),
    [({"of": "left", "least": 0.9}, True), ({"of": "left", "least": 0.91}, False),
     ({"of": "right", "most": 0.5}, True), ({"of": "right", "most": 0.49}, False), ({"of": "both", "most": 0.5}, False),
     ({"of": "both", "least": 0.5}, True), ({"of": "left", "least": 0.8, "most": 0.95}, True),
     ({"of": "left", "above": B_LIES}, True), ({"of": "right", "above": B_LIES}, False),
     ({"of": "left", "below": B_LIES}, False), ({"run": ["no", "c"], "below": B_LIES}, True),
     ({"run": ["c"], "above": B_LIES}, False)],
)  # fmt: skip
def test_each_bound_of_a_precondition_counts(tmp_path, need, is_met):
    declared = {"need": Precondition(**{"metric": "isotropy.total", "reason": "too little", **need})}
    values = {"a": 0.9, "b": 0.5, "c": 0.4}
    scores = world(tmp_path, {run: {"metrics": {"isotropy": {"total": value}}} for run, value in values.items()})
    assert unmet(declared.values(), Comparison.of_claim(AGAINST, scores)) == (None if is_met else "too little")


@pytest.mark.parametrize(
    ("need", "reason"),
    [({"metric": "ppl.total", "of": "right", "least": 1.0}, "b has no ppl.total"),
     ({"metric": "isotropy.total", "run": ["no", "none"], "least": 0.1}, "no run named no or none has isotropy.total"),
     ({"metric": "isotropy.total", "of": "left", "above": {"run": ["b"], "metric": "ppl.total"}}, "b has no ppl.total")],
)  # fmt: skip
def test_a_precondition_whose_number_is_missing_is_not_met(tmp_path, need, reason):
    scores = world(tmp_path, {run: {"metrics": {"isotropy": {"total": 0.5}}} for run in ("a", "b")})
    assert unmet([Precondition(**need, reason="too little")], Comparison.of_claim(AGAINST, scores)) == reason
