"""The reports of the working tree beside those of a git revision, cell by cell, with each metric's tolerance."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from raretokens.reporting.declarations.schema import EXACT, Declarations, Tolerance
from raretokens.reporting.diff.revision import Revision
from raretokens.reporting.tables.render import escaped

KEYS = {"tables": ("row", "column"), "claims": ("claim",), "figures": ("panel", "run", "group")}


@dataclass(frozen=True)
class Move:
    """A cell that is not what it was."""

    place: str
    row: str
    column: str
    before: str
    after: str
    tolerance: str
    out: bool


def compare(revision: Revision, declared: Declarations, reports: Path = Path("reports")) -> list[Move]:
    """Every cell of tables, claims and figures that moved, those within their tolerance too."""
    names = {f"{kind}/{path.name}" for kind in ("tables", "figures") for path in (reports / kind).glob("*.csv")}
    for kind in ("tables", "figures"):
        names |= {f"{kind}/{name}" for name in revision.files(f"{reports}/{kind}") if name.endswith(".csv")}
    moves: list[Move] = []
    for name in [*sorted(names), "claims.csv"]:
        now = (reports / name).read_text(encoding="utf-8") if (reports / name).is_file() else None
        before = revision.read(f"{reports}/{name}")
        if now != before:
            moves += _file_moves(name, before, now, declared)
    return moves


def _file_moves(name: str, before: str | None, now: str | None, declared: Declarations) -> Iterator[Move]:
    if before is None or now is None:
        yield _present(name, "", "", before, now)
        return
    kind = name.split("/")[0].removesuffix(".csv")
    if kind == "figures":
        yield from _figure_moves(name, before, now, declared)
        return
    old, new = ({tuple(row[key] for key in KEYS[kind]): row for row in _rows(text)} for text in (before, now))
    moves = _claim_moves if kind == "claims" else _cell_moves
    for key in dict.fromkeys([*old, *new]):
        if key in old and key in new:
            yield from moves(name, old[key], new[key], declared)
        else:
            yield _present(name, *(*key, "")[:2], old.get(key), new.get(key))


def _present(name: str, row: str, column: str, old: object, new: object) -> Move:
    before, after = ("" if part is None else "present" for part in (old, new))
    return Move(name, row, column, before, after, "", True)


def _cell_moves(name: str, old: dict[str, str], new: dict[str, str], declared: Declarations) -> Iterator[Move]:
    row, column = new["row"], new["column"]
    if old["paper"] != new["paper"]:
        yield Move(name, row, f"{column} (printed)", old["paper"], new["paper"], "exact", True)
    table = declared.tables.get(Path(name).stem)
    needs_no_model = table is not None and any(line.data and line.title == row for line in table.rows)
    drift = EXACT if needs_no_model else declared.metric(new["metric"]).drift
    yield from _number_moves(name, row, column, old["ours"], new["ours"], drift)


def _claim_moves(name: str, old: dict[str, str], new: dict[str, str], declared: Declarations) -> Iterator[Move]:
    """A verdict may change where the numbers that it rests on moved, and no further than their tolerance."""
    drift = declared.metric(new["metric"]).drift if "metric" in new else EXACT
    numbers = [
        move
        for side in ("left", "right")
        if side in old and side in new
        for move in _number_moves(name, new["claim"], side, old[side], new[side], drift)
    ]
    yield from numbers
    if old["verdict"] != new["verdict"]:
        drifted = bool(numbers) and not any(move.out for move in numbers)
        why = "both sides within theirs" if drifted else ""
        yield Move(name, new["claim"], "verdict", old["verdict"], new["verdict"], why, not drifted)


def _number_moves(name: str, row: str, column: str, before: str, after: str, drift: Tolerance) -> Iterator[Move]:
    if before == after:
        return
    if drift.abs == float("inf"):  # words, which may change as long as there are some
        yield Move(name, row, column, before, after, "any", not (before and after))
        return
    bound = " or ".join(f"{value:g} {unit}" for unit, value in drift.model_dump().items() if value) or "exact"
    old, new = _number(before), _number(after)
    yield Move(name, row, column, before, after, bound, old is None or new is None or not drift.allows(old, new))


def _figure_moves(name: str, before: str, now: str, declared: Declarations) -> Iterator[Move]:
    """Curves are compared point by point, clouds by their sorted coordinates: points have no identity across machines.

    A shift is a share of the range of the whole panel, since a curve that hardly moves has none of its own. Panels of a
    metric have its tolerance.
    """
    figure = declared.figures.get(Path(name).stem)
    metrics = {panel.title: panel.metric for panel in figure.panels if panel.metric} if figure else {}
    limit = figure.drift if figure else 0.0
    old, new = (_series(text) for text in (before, now))
    panels = {panel: [part for key, part in old.items() if key[0] == panel] for panel, *_ in old}
    spans = {panel: np.ptp(np.concatenate(parts), axis=0) for panel, parts in panels.items()}
    for key in dict.fromkeys([*old, *new]):
        a, b, row = old.get(key), new.get(key), " ".join(filter(None, key))
        if a is None or b is None or len(a) != len(b):
            counts = ["" if part is None else f"{len(part)} points" for part in (a, b)]
            yield Move(name, row, "points", *counts, "same number", True)
            continue
        if key[0] in metrics:
            drift = declared.metric(metrics[key[0]]).drift
            for before_y, now_y in zip(a[:, 1], b[:, 1], strict=True):
                yield from _number_moves(name, row, "y", f"{before_y:g}", f"{now_y:g}", drift)
            continue
        if not (_is_curve(a) and _is_curve(b)):
            a, b = np.sort(a, axis=0), np.sort(b, axis=0)
        span = np.maximum(spans[key[0]], 1e-12)
        shift = float((np.abs(a - b).mean(axis=0) / span).max())
        if shift:
            yield Move(name, row, "mean shift / range", "0", f"{shift:.2g}", f"{limit:g}", shift > limit)


def _is_curve(points: np.ndarray) -> bool:
    """x rises from point to point, which the points of a cloud do not."""
    return bool((np.diff(points[:, 0]) > 0).all())


def _series(text: str) -> dict[tuple[str, ...], np.ndarray]:
    found: dict[tuple[str, ...], list] = {}
    for row in _rows(text):
        found.setdefault(tuple(row[key] for key in KEYS["figures"]), []).append((float(row["x"]), float(row["y"])))
    return {key: np.array(points) for key, points in found.items()}


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def to_markdown(revision: Revision, moves: list[Move], changed: list[tuple[str, Any, Any]]) -> str:
    """Summary, parameters that differ, and every move, those out of tolerance first."""
    out = [move for move in moves if move.out]
    lines = [
        f"## Reports against {revision.name} ({revision.commit[:10]})",
        "",
        f"{len(moves)} cells moved, {len(out)} of them out of tolerance; {len(changed)} parameters differ.",
        "",
    ]
    if changed:
        rows = [f"| {key} | {escaped(str(old))} | {escaped(str(new))} |" for key, old, new in changed]
        lines += ["| parameter | before | now |", "|---|---|---|", *rows, ""]
    if moves:
        lines += ["| report | row | column | before | now | delta | tolerance | |", "|---|---|---|---|---|---|---|---|"]
        lines += [_line(move) for move in sorted(moves, key=lambda move: not move.out)]
    return "\n".join([*lines, ""])


def _line(move: Move) -> str:
    old, new = _number(move.before), _number(move.after)
    delta = "" if old is None or new is None else f"{new - old:+.4g}"
    words = map(escaped, (move.row, move.column, move.before, move.after))
    return f"| {move.place} | {' | '.join(words)} | {delta} | {move.tolerance} | {'**out**' if move.out else ''} |"
