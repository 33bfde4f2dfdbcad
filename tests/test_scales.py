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

PAPERS = ("AGG", "AGPS", "CosReg", "FRAGE")
ALIKE = 1  # AGPS and FRAGE both conclude that the rows of the baseline tell which types are popular
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
    found = {"value": effect, "seeds": 3, "seed_interval": seed_interval, "test_interval": test_interval}
    return replace(empty, outcome=Outcome(outcome), effect=replace(empty.effect, **found))


def test_the_largest_scale_leads_and_what_disagrees_comes_first(claims):
    assert list(claims) == ["small", "demo"]
    theirs = [claim for claim in DECLARED.claims.values() if not claim.is_ours and claim.paper in PAPERS]
    assert scales.in_words(claims, DECLARED) == (
        "Of 2 conclusions that the small scale can test, 1 is reproduced, 1 is contradicted and 0 are inconclusive; "
        "0 cannot be tested by it, "
        f"{len(theirs) - ALIKE - 2} have no runs or no number. "
        "What two papers conclude alike counts once; others overlap, so the counts are no sample.\n"
        "Of 1 our interpretations, controls and experiments, 1 is reproduced, 0 are contradicted and 0 are inconclusive. "
        "Of 0 conclusions of later papers, 0 are reproduced, 0 are contradicted and 0 are inconclusive."
    )
    parts = scales.to_markdown(claims, DECLARED, []).split("\n## ")
    failing, doubted, turned = (part for part in parts if part.startswith(("Contradicted", "Reproduced", "Different")))
    (row,) = [line for line in failing.splitlines() if line.startswith("| AGG")]
    assert "x 1.06 [x 1.06, x 1.06] seeds, [x 1.05, x 1.07] test set **contradicted**, 3 seeds" in row
    assert "of targets that are not rare x 1.004); rare targets" in row, "the control's effect stands in the reason"
    assert (
        doubted.startswith("Reproduced at the small scale, with a caveat") and "studies/rare-bias-small.csv" in doubted
    )
    assert [line.split(" | ")[0] for line in turned.splitlines()[4:]] == [f"| {DECLARED.claims[RARE].statement}"]


def test_each_claim_has_a_row_below_its_paper(claims):
    rows = [
        line
        for part in scales.to_markdown(claims, DECLARED, []).split("\n## ")[4:]
        for line in part.splitlines()
        if line[:2] == "| "
    ]
    papers = {claim.paper for claim in DECLARED.claims.values()}
    assert len(rows) == len(DECLARED.claims) + 2 * len(papers)


def test_the_committed_page_is_that_of_the_committed_reports():
    root = Path(__file__).parents[1]
    claims = scales.read(root, DECLARED)
    assert (root / "docs/evidence.md").read_text(encoding="utf-8") == scales.to_markdown(
        claims, DECLARED, scales.spent(root)
    ), "run `make readme`"
    assert (root / "docs/verdict.md").read_text(encoding="utf-8") == scales.in_words(claims, DECLARED) + "\n"


def test_what_runs_took_is_said_as_far_as_it_is_known(tmp_path):
    file = tmp_path / "scales/small/trained.csv"
    file.parent.mkdir(parents=True)
    rows = ["lm,mle,0.250,a card,0.7,abc,w1", "lm,agg,0.500,a card,10.0,abc,w2", "lm,freeze,,,,,w3"]
    all_known = "the hours of 2 are known, 0.8 together, each on a card, at most 10.0 GB:"
    for kept, said in ((rows, all_known), (rows[2:], "the hours of 0 are known:")):
        file.write_text("\n".join(["task,run,hours,machine,peak_gb,revision,weights", *kept, ""]))
        (line,) = scales.spent(tmp_path)
        assert line.startswith(f"{len(kept)} runs of the small scale have been trained") and said in line
