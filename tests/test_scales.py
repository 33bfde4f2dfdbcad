"""The page over all scales, on claims.csv files made by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
from tiny.run_sheet import DECLARED

from raretokens.evidence.intervals import Interval
from raretokens.evidence.scores import Scores
from raretokens.evidence.verdict import Outcome, Verdict, judge
from raretokens.report import scales
from raretokens.report.claims import to_csv

COST, CONTROL, RARE = "agg-keeps-total-perplexity", "agg-keeps-perplexity-among-others", "agg-lowers-rare-perplexity"


@pytest.fixture
def claims(tmp_path) -> scales.Claims:
    """Small: the cost contradicted, the control and the rare perplexity hold; demo: the latter does not; all else not run."""
    found = {
        "scales/small": {COST: ("contradicted", 1.06), CONTROL: ("reproduced", 1.004), RARE: ("reproduced", 0.3)},
        ".": {RARE: ("contradicted", 1.2)},
    }
    for folder, verdicts in found.items():
        reports = tmp_path / folder / "reports"
        reports.mkdir(parents=True)
        (reports / "claims.csv").write_text(
            to_csv([verdict(name, *verdicts.get(name, ("not run", None))) for name in DECLARED.claims])
        )
    return scales.read(tmp_path, DECLARED)


def verdict(name: str, outcome: str, effect: float | None) -> Verdict:
    claim = DECLARED.claims[name]
    empty = judge(name, claim, Scores(claim.task, {}, Path("nowhere")), DECLARED)
    seed_interval = None if effect is None else Interval(effect, effect)
    test_interval = Interval(1.05, 1.07) if name == COST else None
    found = {
        "value": effect,
        "seeds": 3,
        "interval": seed_interval,
        "seed_interval": seed_interval,
        "test_interval": test_interval,
    }
    return replace(empty, outcome=Outcome(outcome), effect=replace(empty.effect, **found))


def test_the_largest_scale_leads_and_what_two_scales_decide_differently_is_listed(claims):
    assert list(claims) == ["small", "demo"]
    words = scales.in_words(claims, DECLARED)
    assert " Of these, 2 could be tested. 1 is reproduced, 1 is contradicted and 0 are inconclusive. " in words
    text = scales.to_markdown(claims, DECLARED, [])
    assert words in text and text.index("## The small scale") < text.index("## The demo scale")
    turned = text.split("## Different verdicts at the demo and the small scale")[1].strip().splitlines()
    (row,) = turned[2:]
    assert row.startswith(
        f"| {DECLARED.claims[RARE].statement} | AGG table 3 | x 0.172 | x 0.3 [x 0.3 to x 0.3] | reproduced |"
    )


def test_what_runs_took_is_said_as_far_as_it_is_known(tmp_path):
    file = tmp_path / "scales/small/trained.csv"
    file.parent.mkdir(parents=True)
    rows = ["lm,mle,0.250,a card,0.7,abc,w1", "lm,agg,0.500,a core,10.0,abc,w2", "lm,freeze,,,,,w3"]
    memory = "with at most 10.0 GB of memory each"
    all_known = f"The hours of 2 of them are known. They took 0.8 hours, {memory}: 0.2 on a card, 0.5 on a core."
    for kept, said in ((rows, all_known), (rows[2:], "The hours of 0 of them are known.")):
        file.write_text("\n".join(["task,run,hours,machine,peak_gb,revision,weights", *kept, ""]))
        (line,) = scales.training_costs(tmp_path)
        assert line.startswith(f"{len(kept)} runs of the small scale have been trained") and said in line
