"""Verdicts on what the papers conclude."""

from pathlib import Path

from raretokens.reporting.claims.effects import effects, printed_effect, turning_point
from raretokens.reporting.claims.measuring import chosen, measured
from raretokens.reporting.claims.verdict import Verdict
from raretokens.reporting.declarations.claim import Claim
from raretokens.reporting.declarations.declared import Declarations
from raretokens.reporting.declarations.metric import Tolerance
from raretokens.reporting.scored import Scores, Value


def judge_all(declared: Declarations, scores: dict[str, Scores]) -> list[Verdict]:
    return [
        judge(name, claim, scores[claim.task], declared.folder, declared.metric(claim.left.metric).drift)
        for name, claim in declared.claims.items()
    ]


def judge(name: str, claim: Claim, scores: Scores, folder: Path, noise: Tolerance | None = None) -> Verdict:
    """Compare the two sides seed by seed: undecided where the seeds do not agree.

    With one seed, also where the two are nearer than `noise`, what the metric may move from machine to machine.
    folder: data/paper, with the printed numbers.
    """
    values = [measured(side, scores) for side in claim.sides.values()]
    left, right = [*values, None][:2]
    each = effects(claim, values)
    return Verdict(
        claim=name,
        paper=claim.paper,
        place=claim.place,
        statement=claim.statement,
        metric=claim.left.metric,
        verdict=_verdict(claim, each, left, right, noise),
        kind=claim.effect,
        left=_mean(left),
        right=_mean(right),
        ours=_number(sum(each) / len(each)) if each else "",
        lowest=_number(min(each, default=None)),
        highest=_number(max(each, default=None)),
        printed=_number(printed_effect(claim, folder)),
        seeds=str(len(each)),
        runs=" / ".join(dict.fromkeys(filter(None, (chosen(side, scores) for side in claim.sides.values())))),
        note=claim.unprinted or "",
    )


def _verdict(claim: Claim, each: list[float], left: Value | None, right: Value | None, noise: Tolerance | None) -> str:
    if not each:
        return "not run"
    if (
        len(each) == 1
        and left
        and noise
        and noise.allows(turning_point(claim, right.mean if right else 0.0), left.mean)
    ):
        return "undecided"
    good = [effect < claim.threshold if claim.expect == "lower" else effect > claim.threshold for effect in each]
    return "holds" if all(good) else "undecided" if any(good) else "does not hold"


def _mean(value: Value | None) -> str:
    return f"{value.mean:.6g}" if value else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
