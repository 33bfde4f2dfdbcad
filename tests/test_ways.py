"""The ways that docs/architecture.md describes are those that the code takes."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import raretokens
from raretokens.evidence.scores import AllScores
from raretokens.evidence.verdict import Outcome, judge
from raretokens.papers import load
from raretokens.pipeline.config import load as load_parameters
from raretokens.pipeline.jobs import run_sheet
from raretokens.report import claims

ROOT = Path(__file__).parents[1]
PACKAGE = Path(raretokens.__file__).parent


def described(heading: str) -> set[str]:
    """The files of the package that the lines of a way name."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return {
        name for line in text.split("\n") if line[:1].isdigit() for name in re.findall(r"`(\w+(?:/\w+)*\.py)`", line)
    }


def executed(function: Callable[[], object]) -> set[str]:
    """The files of the package in which a function calls anything."""
    files: set[str] = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_name not in ("<lambda>", "<module>"):
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return {str(Path(file).relative_to(PACKAGE)) for file in files if Path(file).is_relative_to(PACKAGE)}


def test_a_claim_reaches_its_verdict_on_the_way_that_is_described(monkeypatch):
    monkeypatch.chdir(ROOT / "scales/small")
    declared = load.load_declarations(ROOT / "data/paper")
    declared._printed.clear()
    scores = AllScores(run_sheet(load_parameters()), Path("reports/runs"))["lm"]
    name = "agg-lowers-rare-perplexity"

    def judged() -> None:
        claim = load._claims(ROOT / "data/paper")[name]
        verdict = judge(name, claim, scores, declared)
        assert verdict.outcome is Outcome.REPRODUCED
        claims.to_csv([verdict]), claims.to_markdown([verdict], declared)

    way = described("From a claim to its verdict")
    assert executed(judged) == way and len(way) <= 15
