"""Claims on the page: each verdict with what it rests on, and the effects that stand out most."""

import math
from collections.abc import Collection
from typing import Any

from raretokens.evidence.comparison import Comparison
from raretokens.evidence.scores import Scores
from raretokens.evidence.verdict import DECIDED, Outcome, Verdict
from raretokens.files import round_digits
from raretokens.papers.claim import Claim, Side
from raretokens.papers.declarations import Declarations
from raretokens.report.effect_text import few_seeds_text, named_intervals, number_text, page_text

BY_RANK = ("singular_values", "rank_frequency")  # series that do not run over updates


def claim_sections(declared: Declarations, verdicts: list[Verdict], scores: dict[str, Scores]) -> list[dict[str, Any]]:
    return [_section(declared, verdict, scores) for verdict in verdicts]


def _section(declared: Declarations, verdict: Verdict, scores: dict[str, Scores]) -> dict[str, Any]:
    """The effect in words, the runs and numbers behind it, and the tables and figures of its place."""
    claim, metric, kind = verdict.claim, declared.metric(verdict.claim.left.metric), verdict.claim.effect
    comparison = Comparison.of_claim(claim, scores[claim.task])
    return {
        "id": verdict.name,
        "paper": claim.paper,
        "place": claim.place,
        "statement": claim.statement,
        "task": claim.task,
        "kind": kind,
        "title": metric.title,
        "unit": metric.unit,
        "expected": _expected(claim),
        "pair": _pair(verdict, metric.digits),
        "verdict": verdict.outcome,
        "reason": verdict.reason,
        "measured": number_text(verdict.effect.value),
        "here": page_text(kind, verdict.effect.value),
        "reported": number_text(verdict.reported),
        "print": page_text(kind, verdict.reported),
        "note": claim.unreported or "",
        "seeds": verdict.effect.seeds,
        "few_seeds": few_seeds_text(verdict),
        "ranges": {
            name: [page_text(kind, end) for end in interval]
            for name, interval in named_intervals(verdict.effect).items()
        },
        "sides": [_side(name, comparison, declared) for name in comparison.all_sides],
        "tables": _known(declared.tables, f"{claim.paper.lower()}-", claim.tables),
        "figures": _known(declared.figures, f"{claim.paper.lower()}-figure-", claim.figures),
    }


def _known(declared: Collection[str], start: str, numbers: list[int]) -> list[str]:
    return [name for number in numbers if (name := f"{start}{number}") in declared]


def _pair(verdict: Verdict, digits: int) -> list[str]:
    """Left and right number; nothing where a number stands alone."""
    sides = (verdict.effect.left, verdict.effect.right)
    return [] if None in sides else [f"{round_digits(side):,.{digits}f}" for side in sides]


def _expected(claim: Claim) -> str:
    away = "over" if claim.effect == "ratio" else "less"
    what = f"{claim.effect}, {away} that of the control," if claim.control else claim.effect
    if claim.expect == "same":
        low, high = claim.margins
        return f"{what} from {low:.4g} to {high:.4g}"
    return f"{what} {'below' if claim.expect == 'lower' else 'above'} {claim.threshold:g}"


def _side(name: str, comparison: Comparison, declared: Declarations) -> dict[str, Any]:
    side, run, value = comparison.all_sides[name], comparison.runs[name], comparison.values[name]
    repetitions = comparison.scores.repetitions.get(run or "", [])
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


SHOWN = 3


def clearest(verdicts: list[Verdict]) -> list[Verdict]:
    """Of both sides, first those that do not hold: a paper's own, reported, with three seeds or more and nothing said against.

    One for each metric, and for each paper as long as others have one.
    """
    return [one for outcome in DECIDED[::-1] for one in _clearest_of(outcome, verdicts)]


def _clearest_of(outcome: Outcome, verdicts: list[Verdict]) -> list[Verdict]:
    plain = (one for one in verdicts if one.reported is not None and not one.claim.is_ours and not one.claim.but)
    decided = [one for one in plain if one.outcome == outcome and not one.is_of_few_seeds]
    ranked = sorted(decided, key=lambda verdict: -_strength(verdict))
    chosen: list[Verdict] = []
    for other_papers in (True, False):
        for verdict in ranked:
            if len(chosen) < SHOWN and _is_new(verdict, chosen, other_papers):
                chosen.append(verdict)
    return sorted(chosen, key=ranked.index)


def _is_new(verdict: Verdict, chosen: list[Verdict], other_papers: bool) -> bool:
    if other_papers and verdict.claim.paper in {other.claim.paper for other in chosen}:
        return False
    return _family(verdict) not in map(_family, chosen)


def _family(verdict: Verdict) -> str:
    return verdict.claim.left.metric.split(".")[0]


def _strength(verdict: Verdict) -> float:
    """Distance of the effect from the threshold, in widths of the wider interval; a ratio's as logarithms."""
    claim, step = verdict.claim, math.log if verdict.claim.effect == "ratio" else float
    intervals = filter(None, (verdict.effect.seed_interval, verdict.effect.test_interval))
    width = max((step(interval.high) - step(interval.low) for interval in intervals), default=0.0)
    return min(abs(step(verdict.effect.value) - step(bound)) for bound in set(claim.margins)) / width if width else 0.0
