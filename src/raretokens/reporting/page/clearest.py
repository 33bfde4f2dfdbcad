"""The effects that stand out most: far from where they turn, in widths of their widest interval."""

import math

from raretokens.evidence.verdict import DECIDED, Verdict
from raretokens.papers.declarations import Declarations

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
