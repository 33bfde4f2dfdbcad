"""Claims on the page: each verdict with what it rests on, and the effects that stand out most."""

import math
import re
from dataclasses import asdict
from typing import Any

from raretokens.evidence.effects import chosen, measured
from raretokens.evidence.scores import Scores, Value
from raretokens.evidence.verdict import DECIDED, Verdict
from raretokens.papers.claim import Claim, Side
from raretokens.papers.declarations import Declarations

BY_RANK = ("singular_values", "rank_frequency")  # series that do not run over updates


def claim_sections(declared: Declarations, verdicts: list[Verdict], scores: dict[str, Scores]) -> list[dict[str, Any]]:
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


SHOWN = 3


def clearest(declared: Declarations, verdicts: list[Verdict]) -> list[Verdict]:
    """Of both sides, first those that do not hold: a paper's own, printed, with three seeds or more and nothing said against.

    One for each metric, and for each paper as long as others have one.
    """
    return [one for kind in DECIDED[::-1] for one in _of_kind(declared, verdicts, kind)]


def _of_kind(declared: Declarations, verdicts: list[Verdict], kind: str) -> list[Verdict]:
    plain = (one for one in verdicts if one.printed and not one.is_ours and not declared.claims[one.claim].but)
    decided = [one for one in plain if one.verdict == kind and not one.few_seeds]
    ranked = sorted(decided, key=lambda verdict: -_strength(declared, verdict))
    chosen: list[Verdict] = []
    for other_papers in (True, False):
        for verdict in ranked:
            if len(chosen) < SHOWN and _is_new(verdict, chosen, other_papers):
                chosen.append(verdict)
    return sorted(chosen, key=ranked.index)


def _is_new(verdict: Verdict, chosen: list[Verdict], other_papers: bool) -> bool:
    if other_papers and verdict.paper in {other.paper for other in chosen}:
        return False
    return _family(verdict) not in map(_family, chosen)


def _family(verdict: Verdict) -> str:
    return verdict.metric.split(".")[0]


def _strength(declared: Declarations, verdict: Verdict) -> float:
    """Distance of the effect from where the claim turns, in widths of the wider interval; a ratio's as logarithms."""
    step = math.log if verdict.kind == "ratio" else float
    ends = [(verdict.seeds_low, verdict.seeds_high), (verdict.test_low, verdict.test_high)]
    width = max((step(float(high)) - step(float(low)) for low, high in ends if low), default=0.0)
    turns = set(declared.claims[verdict.claim].margins)
    return min(abs(step(float(verdict.ours)) - step(turn)) for turn in turns) / width if width else 0.0
