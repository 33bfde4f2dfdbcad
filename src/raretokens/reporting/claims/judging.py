"""Verdicts on what the papers conclude."""

import csv
import io
import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from raretokens.reporting.declarations.printed import PrintedTable
from raretokens.reporting.declarations.schema import Claim, Declarations, Side, Tolerance
from raretokens.reporting.figures import panel_points as points
from raretokens.reporting.scored import Scores, Value

VERDICTS = ("holds", "does not hold", "undecided", "not run")
NEIGHBOURS = "neighbours.rare"  # a share that is counted from the listed neighbours
HEAD = "| claim | where | verdict | effect here | in print | effect | runs | seeds |"
RULE = "|---|---|---|---|---|---|---|---|"


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
    note: str  # why nothing is printed


def judge(name: str, claim: Claim, scores: Scores, folder: Path, noise: Tolerance | None = None) -> Verdict:
    """Compare the two sides seed by seed: undecided where the seeds do not agree.

    With one seed, also where the two are nearer than `noise`, what the metric may move from machine to machine.
    """
    values = [measured(side, scores) for side in claim.sides.values()]
    left, right = [*values, None][:2]
    effects = _effects(claim, [value for value in values if value]) if all(values) else []
    good = [effect < claim.threshold if claim.expect == "lower" else effect > claim.threshold for effect in effects]
    verdict = "not run" if not good else "holds" if all(good) else "undecided" if any(good) else "does not hold"
    if len(effects) == 1 and left and noise and noise.allows(_expected(claim, right), left.mean):
        verdict = "undecided"
    stems = filter(None, (scores.choose(side.runs, data=side.data) for side in claim.sides.values()))
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
        runs=" / ".join(dict.fromkeys(stems)),
        note=claim.unprinted or "",
    )


def _expected(claim: Claim, right: Value | None) -> float:
    """What the left metric would be at the threshold."""
    if right is None:
        return claim.threshold
    return right.mean + claim.threshold if claim.effect == "difference" else right.mean * claim.threshold


def _effects(claim: Claim, values: list[Value]) -> list[float]:
    """Effect for each seed that both sides have; without a common seed, that of the means.

    What needs no model has no seed: every seed of the other side is compared with it.
    """
    if len(values) == 1:
        return list(values[0].values)
    left, right = values
    pairs = [
        (a, b)
        for a, seed in zip(left.values, left.seeds, strict=True)
        for b, other in zip(right.values, right.seeds, strict=True)
        if seed == other or None in (seed, other)
    ]
    return [_effect(claim, a, b) for a, b in pairs or [(left.mean, right.mean)]]


def measured(side: Side, scores: Scores) -> Value | None:
    """The side's metric over seeds: of the score files, of the curves, or counted among the listed neighbours."""
    stem = scores.choose(side.runs, data=side.data)
    if stem is None or side.at is None and side.metric != NEIGHBOURS:
        return scores.value(stem, side.metric) if stem else None
    found = []
    for name in scores.stems().get(stem, [stem]):
        number = rare_neighbours(scores.read(name) or {}) if side.at is None else points.at(side, scores, name)
        if number is not None:
            found.append((name, number, (scores.read(name) or {}).get("seed")))
    return Value(*map(tuple, zip(*found, strict=True))) if found else None


def rare_neighbours(score: dict) -> float | None:
    """Share of the rare group among the nearest neighbours of all queries; None without neighbours."""
    groups = [group for _, listed in score.get("neighbours", []) for _, _, group in listed]
    return groups.count("rare") / len(groups) if groups else None


def _effect(claim: Claim, left: float, right: float) -> float:
    if claim.effect == "difference":
        return left - right
    if right == 0:  # nothing over nothing is no effect
        return math.copysign(math.inf, left) if left else 1.0
    return left / right


def _printed(claim: Claim, folder: Path) -> str:
    found = [_printed_value(folder, *side.printed) for side in claim.sides.values() if side.printed]
    if claim.unprinted or None in found:
        return ""
    return _number(found[0] if claim.effect == "value" else _effect(claim, *found))


def _printed_value(folder: Path, file: str, row: str, column: str, group: str) -> float | None:
    """The printed number; for the group *, the mean over all groups of that row and column."""
    table = PrintedTable(folder, file)
    if group != "*":
        return table.cell(row, column, group).value
    found = [cell.value for key, cell in table.cells.items() if key[:2] == (row, column) and cell.value is not None]
    return sum(found) / len(found) if found else None


def _number(value: float) -> str:
    return f"{value:.4g}"


def to_csv(verdicts: list[Verdict]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(Verdict.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(verdict) for verdict in verdicts)
    return out.getvalue()


def to_markdown(verdicts: list[Verdict], declared: Declarations) -> str:
    """Counts on top, then a table for each paper."""
    lines = [
        "# What the papers conclude, and whether it holds here",
        "",
        f"{len(verdicts)} claims: {_counts(verdicts)}.",
        "",
        "An effect is the first run's metric over the second's (ratio), less it (difference), or the metric itself (value); in",
        "brackets its range over seeds. *Undecided*: the seeds do not agree, or one seed's effect is within what the metric may",
        "move from machine to machine. One seed says nothing about chance.",
    ]
    for paper in dict.fromkeys(v.paper for v in verdicts):
        own = [v for v in verdicts if v.paper == paper]
        lines += ["", f"## {paper}", "", f"{len(own)} claims: {_counts(own)}.", "", HEAD, RULE]
        lines += [_line(v, declared) for v in own]
    return "\n".join([*lines, ""])


def _counts(verdicts: list[Verdict]) -> str:
    found = Counter(v.verdict for v in verdicts)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS if verdict in found)


def _line(v: Verdict, declared: Declarations) -> str:
    ours = f"{v.ours} [{v.lowest}, {v.highest}]" if v.seeds not in ("0", "1") else v.ours
    verdict = f"**{v.verdict}**{' (one seed)' if v.seeds == '1' else ''}"
    metric = declared.metric(v.metric)
    unit = f" ({metric.unit})" if v.kind == "difference" and metric.unit not in metric.title else ""
    effect = f"{v.kind} of {metric.title}{unit}"
    printed = v.printed or f"*{v.note}*"
    return f"| {v.statement} | {v.place} | {verdict} | {ours} | {printed} | {effect} | {v.runs} | {v.seeds} |"
