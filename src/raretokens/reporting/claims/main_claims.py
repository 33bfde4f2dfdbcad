"""The few conclusions that the papers stand or fall with, as a table for who reads nothing else, and as numbers for DVC."""

import pandas as pd

from raretokens.reporting.claims.verdict import DECIDED, Verdict
from raretokens.reporting.declarations.declared import Declarations

ORDER = ["conclusion", "paper", "in print", "here", "95 % interval", "verdict"]


def main_claims(declared: Declarations, verdicts: list[Verdict]) -> str:
    """CSV: a line for each claim that is declared as a main one."""
    rows = [_row(verdict) for verdict in verdicts if declared.claims[verdict.claim].main]
    return pd.DataFrame(rows, columns=ORDER).to_csv(index=False, lineterminator="\n")


def headline(declared: Declarations, verdicts: list[Verdict]) -> dict[str, float]:
    """Short name -> effect, of those that were measured: few enough for a line of `dvc exp show`."""
    mains = {verdict: declared.claims[verdict.claim].main for verdict in verdicts}
    return {name: float(f"{float(verdict.ours):.4g}") for verdict, name in mains.items() if name and verdict.ours}


def _row(verdict: Verdict) -> dict[str, str]:
    few = f", {verdict.few_seeds}" if verdict.few_seeds else ""
    reason = "" if verdict.verdict in DECIDED or not verdict.reason else f": {verdict.reason}"
    return {
        "conclusion": verdict.statement,
        "paper": f"{verdict.paper} {verdict.place}",
        "in print": effect(verdict.kind, verdict.printed),
        "here": effect(verdict.kind, verdict.ours),
        "95 % interval": _interval(verdict),
        "verdict": f"{verdict.verdict}{few}{reason}",
    }


def _interval(verdict: Verdict) -> str:
    """Over seeds where there is one, else over the test set."""
    for low, high, over in (
        (verdict.seeds_low, verdict.seeds_high, verdict.over_seeds),
        (verdict.test_low, verdict.test_high, "test set"),
    ):
        if low:
            return f"{effect(verdict.kind, low)} to {effect(verdict.kind, high)} ({over})"
    return ""


def effect(kind: str, number: str) -> str:
    """A ratio as x 0.5, a difference with its sign; empty where there is none."""
    if not number:
        return ""
    value = float(number)
    if kind == "ratio" and 0.9 < value < 1.1:
        return f"x {value:.4g}"  # a small change is a few percent
    return f"x {value:.3g}" if kind == "ratio" else f"{value:+.3g}" if kind == "difference" else f"{value:.4g}"
