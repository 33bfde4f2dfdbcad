"""Claims on the page: what a verdict rests on, and the effects that stand out most."""

import re
from dataclasses import asdict
from typing import Any

from raretokens.reporting.claims import judging as claims
from raretokens.reporting.claims.judging import Verdict
from raretokens.reporting.declarations.schema import Claim, Declarations, Side
from raretokens.reporting.scored import Scores

SHOWN = 3


def evidence(declared: Declarations, verdicts: list[Verdict], scores: dict[str, Scores]) -> list[dict[str, Any]]:
    """Each verdict with its effect in words, the runs and numbers behind it, and the tables and figures of its place."""
    found = []
    for verdict in verdicts:
        claim = declared.claims[verdict.claim]
        found.append(
            {
                **asdict(verdict),
                "id": verdict.claim,
                "task": claim.task,
                "title": declared.metric(verdict.metric).title,
                "unit": declared.metric(verdict.metric).unit,
                "expected": _expected(claim),
                "pair": _pair(verdict, declared),
                "here": effect(verdict.kind, verdict.ours),
                "print": effect(verdict.kind, verdict.printed),
                "range": [effect(verdict.kind, end) for end in (verdict.lowest, verdict.highest)],
                "sides": [_side(side, declared, scores[claim.task]) for side in claim.sides.values()],
                "tables": _named(declared.tables, verdict, "table", "-"),
                "figures": _named(declared.figures, verdict, "figure", "-figure-"),
            }
        )
    return found


def clearest(declared: Declarations, verdicts: list[Verdict]) -> list[Verdict]:
    """Claims that hold and are printed: several seeds before one, then farthest beyond what machines may move the metric.

    One for each metric, and for each paper as long as others have one.
    """
    holding = [verdict for verdict in verdicts if verdict.verdict == "holds" and verdict.printed]
    ranked = sorted(holding, key=lambda verdict: (verdict.seeds == "1", -_strength(declared, verdict)))
    chosen: list[Verdict] = []
    for other_papers in (True, False):
        for verdict in ranked:
            metrics, papers = {v.metric.split(".")[0] for v in chosen}, {v.paper for v in chosen}
            new = verdict.metric.split(".")[0] not in metrics and not (other_papers and verdict.paper in papers)
            if new and len(chosen) < SHOWN:
                chosen.append(verdict)
    return sorted(chosen, key=ranked.index)


def effect(kind: str, number: str) -> str:
    """A ratio as ×0.5, a difference with its sign."""
    if not number or kind == "value" or kind == "difference" and float(number) == 0:
        return number
    if kind == "ratio":
        return f"×{number}"
    return number.replace("-", "−", 1) if number.startswith("-") else f"+{number}"


def _pair(verdict: Verdict, declared: Declarations) -> list[str]:
    """Left and right number with the metric's digits; nothing where a number stands alone."""
    digits = declared.metric(verdict.metric).digits
    sides = (verdict.left, verdict.right)
    return [f"{float(side):,.{digits}f}" for side in sides] if all(sides) else []


def _strength(declared: Declarations, verdict: Verdict) -> float:
    """Distance of the left number from where the claim turns, in units of the metric's drift."""
    drift, claim = declared.metric(verdict.metric).drift, declared.claims[verdict.claim]
    left, right = float(verdict.left), float(verdict.right or 0)
    turn = right * claim.threshold if claim.effect == "ratio" else right + claim.threshold
    bound = max(drift.abs or 0.0, (drift.rel or 0.0) * abs(turn))
    return abs(left - turn) / bound if bound else 0.0


def _expected(claim: Claim) -> str:
    side = "below" if claim.expect == "lower" else "above"
    return f"{claim.effect} {side} {claim.threshold:g}"


def _side(side: Side, declared: Declarations, scores: Scores) -> dict[str, Any]:
    value, stem = claims.measured(side, scores), scores.choose(side.runs, data=side.data)
    at = f"at {side.at:.0%} of training" if isinstance(side.at, float | int) else side.at
    return {
        "metric": side.metric,
        "title": declared.metric(side.metric).title,
        "at": {"until": "when the rare rows thaw"}.get(str(at), at),
        "names": [stem] if stem else side.runs,
        "values": list(zip(value.runs, value.values, value.seeds, strict=True)) if value else [],
        "missing": [name for name in scores.stems().get(stem or "", []) if value is None or name not in value.runs],
    }


def _named(known: dict[str, Any], verdict: Verdict, kind: str, middle: str) -> list[str]:
    """Those that a place speaks of: AGG, "tables 3, 4" -> agg-3, agg-4."""
    found = re.match(rf"{kind}s? (\d+(?:(?:,| and) \d+)*)", verdict.place)
    names = [f"{verdict.paper.lower()}{middle}{number}" for number in re.findall(r"\d+", found[1])] if found else []
    return [name for name in names if name in known]
