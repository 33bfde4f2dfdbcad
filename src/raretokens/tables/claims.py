"""Verdicts on what the papers conclude."""

import csv
import io
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from raretokens.tables.declarations import Claim, Declarations, Side, Tolerance
from raretokens.tables.printed import PrintedTable
from raretokens.tables.scored import Scores, Value


@dataclass(frozen=True)
class Verdict:
    claim: str
    paper: str
    place: str
    statement: str
    metric: str
    verdict: str  # holds, does not hold, undecided, not run
    left: str  # mean over seeds
    right: str
    ours: str  # mean effect
    lowest: str
    highest: str
    printed: str
    kind: str  # of the effect
    seeds: str
    runs: str


def judge(name: str, claim: Claim, scores: Scores, folder: Path, noise: Tolerance | None = None) -> Verdict:
    """Compare the two runs seed by seed: undecided where the seeds do not agree.

    With one seed, also where the two are nearer than `noise`, what the metric may move from machine to machine.
    """
    left, right = (_value(side, scores) for side in (claim.left, claim.right))
    effects = _effects(claim, left, right) if left and right else []
    good = [effect < claim.threshold if claim.expect == "lower" else effect > claim.threshold for effect in effects]
    verdict = "not run" if not good else "holds" if all(good) else "undecided" if any(good) else "does not hold"
    if len(effects) == 1 and left and right and noise and noise.allows(_expected(claim, right.mean), left.mean):
        verdict = "undecided"
    stems = list(dict.fromkeys(filter(None, (scores.choose(side.runs) for side in (claim.left, claim.right)))))
    return Verdict(
        claim=name,
        paper=claim.paper,
        place=claim.place,
        statement=claim.statement,
        metric=claim.left.metric,
        verdict=verdict,
        kind=claim.effect,
        left=f"{left.mean:.6g}" if left else "",
        right=f"{right.mean:.6g}" if right else "",
        ours=_number(sum(effects) / len(effects)) if effects else "",
        lowest=_number(min(effects)) if effects else "",
        highest=_number(max(effects)) if effects else "",
        printed=_printed(claim, folder),
        seeds=str(len(effects)),
        runs=" / ".join(stems),
    )


def _expected(claim: Claim, right: float) -> float:
    """What the left metric would be at the threshold."""
    return right + claim.threshold if claim.effect == "difference" else right * claim.threshold


def _effects(claim: Claim, left: Value, right: Value) -> list[float]:
    """Effect for each seed that both runs have; without a common seed, that of the means."""
    pairs = [
        (a, b)
        for a, seed in zip(left.values, left.seeds, strict=True)
        for b, other in zip(right.values, right.seeds, strict=True)
        if seed == other
    ]
    return [_effect(claim, a, b) for a, b in pairs or [(left.mean, right.mean)]]


def _value(side: Side, scores: Scores) -> Value | None:
    stem = scores.choose(side.runs)
    return scores.value(stem, side.metric) if stem else None


def _effect(claim: Claim, left: float, right: float) -> float:
    if claim.effect == "difference":
        return left - right
    if right == 0:  # nothing over nothing is no effect
        return math.copysign(math.inf, left) if left else 1.0
    return left / right


def _printed(claim: Claim, folder: Path) -> str:
    if claim.left.printed is None or claim.right.printed is None:
        return ""
    left, right = (PrintedTable(folder, p[0]).cell(*p[1:]).value for p in (claim.left.printed, claim.right.printed))
    return "" if left is None or right is None else _number(_effect(claim, left, right))


def _number(value: float) -> str:
    return f"{value:.4g}"


def to_csv(verdicts: list[Verdict]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(Verdict.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(verdict) for verdict in verdicts)
    return out.getvalue()


def to_markdown(verdicts: list[Verdict], declared: Declarations) -> str:
    lines = [
        "# What the papers conclude, and whether it holds here",
        "",
        "An effect is the first run's metric over the second's (ratio), or less it (difference); in brackets its range over",
        "seeds. *Undecided*: the seeds do not agree, or one seed's effect is within what the metric may move from machine to",
        "machine. One seed says nothing about chance.",
        "",
        "| claim | where | verdict | effect here | in print | effect | runs | seeds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for v in verdicts:
        ours = f"{v.ours} [{v.lowest}, {v.highest}]" if v.seeds not in ("0", "1") else v.ours
        verdict = f"**{v.verdict}**{' (one seed)' if v.seeds == '1' else ''}"
        metric = declared.metric(v.metric)
        unit = f" ({metric.unit})" if v.kind == "difference" and metric.unit not in metric.title else ""
        effect = f"{v.kind} of {metric.title}{unit}"
        lines.append(
            f"| {v.statement} | {v.paper} {v.place} | {verdict} | {ours} | {v.printed} | {effect} | {v.runs} | {v.seeds} |"
        )
    return "\n".join([*lines, ""])
