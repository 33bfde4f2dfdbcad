"""Claims on the page: each verdict with what it rests on."""

import re
from dataclasses import asdict
from typing import Any

from raretokens.evidence.effects import chosen, measured
from raretokens.evidence.scores import Scores, Value
from raretokens.evidence.verdict import Verdict
from raretokens.papers.claim import Claim, Side
from raretokens.papers.declarations import Declarations

BY_RANK = ("singular_values", "rank_frequency")  # series that do not run over updates


def sections(declared: Declarations, verdicts: list[Verdict], scores: dict[str, Scores]) -> list[dict[str, Any]]:
    return [_section(declared, verdict, scores) for verdict in verdicts]


def _section(declared: Declarations, verdict: Verdict, scores: dict[str, Scores]) -> dict[str, Any]:
    """The effect in words, the runs and numbers behind it, and the tables and figures of its place."""
    claim, metric = declared.claims[verdict.claim], declared.metric(verdict.metric)
    return {
        **asdict(verdict),
        "id": verdict.claim,
        "task": claim.task,
        "title": metric.title,
        "unit": metric.unit,
        "expected": _expected(claim),
        "pair": _pair(verdict, metric.digits),
        "here": _in_words(verdict.kind, verdict.ours),
        "print": _in_words(verdict.kind, verdict.printed),
        "few_seeds": verdict.few_seeds,
        "ranges": {
            name: [_in_words(verdict.kind, end) for end in ends]
            for name, ends in (
                (verdict.over_seeds, (verdict.seeds_low, verdict.seeds_high)),
                ("test set", (verdict.test_low, verdict.test_high)),
            )
            if ends[0]
        },
        "sides": [
            _side(claim.all_sides[name], value, declared, scores[claim.task])
            for name, value in measured(claim, scores[claim.task]).items()
        ],
        "tables": _named(declared.tables, verdict, "table", "-"),
        "figures": _named(declared.figures, verdict, "figure", "-figure-"),
    }


def _in_words(kind: str, number: str) -> str:
    """A ratio as ×0.5, a difference with its sign."""
    if not number or kind == "value" or kind == "difference" and float(number) == 0:
        return number
    if kind == "ratio":
        return f"×{number}"
    return number.replace("-", "−", 1) if number.startswith("-") else f"+{number}"


def _pair(verdict: Verdict, digits: int) -> list[str]:
    """Left and right number; nothing where a number stands alone."""
    sides = (verdict.left, verdict.right)
    return [f"{float(side):,.{digits}f}" for side in sides] if all(sides) else []


def _expected(claim: Claim) -> str:
    away = "over" if claim.effect == "ratio" else "less"
    what = f"{claim.effect}, {away} that of the control," if claim.control else claim.effect
    if claim.expect == "same":
        low, high = claim.margins
        return f"{what} from {low:.4g} to {high:.4g}"
    return f"{what} {'below' if claim.expect == 'lower' else 'above'} {claim.threshold:g}"


def _side(side: Side, value: Value | None, declared: Declarations, scores: Scores) -> dict[str, Any]:
    run = chosen(side, scores)
    repetitions = scores.repetitions.get(run or "", [])
    return {
        "metric": side.metric,
        "title": declared.metric(side.metric).title,
        "at": _moment(side),
        "names": [run] if run else side.runs,
        "values": list(zip(value.runs, value.values, value.seeds, strict=True)) if value else [],
        "missing": [name for name in repetitions if value is None or name not in value.runs],
    }


def _moment(side: Side) -> str | None:
    if isinstance(side.at, float | int):
        along = "of the ranks" if side.metric.split(".")[0] in BY_RANK else "of training, at the nearest snapshot"
        return f"at {side.at:.0%} {along}"
    return "when the rare rows thaw" if side.at == "until" else side.at


def _named(known: dict[str, Any], verdict: Verdict, kind: str, middle: str) -> list[str]:
    """Those that a place speaks of: AGG, "tables 3, 4" -> agg-3, agg-4."""
    place = re.match(rf"{kind}s? (\d+(?:(?:,| and) \d+)*)", verdict.place)
    numbers = re.findall(r"\d+", place[1]) if place else []
    names = [f"{verdict.paper.lower()}{middle}{number}" for number in numbers]
    return [name for name in names if name in known]
