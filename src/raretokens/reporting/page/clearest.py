"""The effects that stand out most."""

from raretokens.reporting.claims.effects import turning_point
from raretokens.reporting.claims.verdict import DECIDED, Verdict
from raretokens.reporting.declarations.declared import Declarations

SHOWN = 3


def clearest(declared: Declarations, verdicts: list[Verdict]) -> list[Verdict]:
    """Of both sides, first those that do not hold: decided with three seeds or more, printed, farthest from where they turn.

    One for each metric, and for each paper as long as others have one.
    """
    return [one for kind in DECIDED[::-1] for one in _of_kind(declared, verdicts, kind)]


def _of_kind(declared: Declarations, verdicts: list[Verdict], kind: str) -> list[Verdict]:
    decided = [one for one in verdicts if one.verdict == kind and one.printed and not one.few_seeds]
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
    """Distance of the left number from where the claim turns, in units of the metric's drift."""
    turn = turning_point(declared.claims[verdict.claim], float(verdict.right or 0))
    bound = declared.metric(verdict.metric).drift.around(turn)
    return abs(float(verdict.left) - turn) / bound if bound else 0.0
