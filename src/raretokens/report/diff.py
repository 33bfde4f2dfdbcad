"""The reports beside those of a git revision, cell by cell, with each metric's tolerance."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raretokens import csv_files
from raretokens.errors import UserError
from raretokens.papers.declarations import Declarations
from raretokens.papers.metric import ANY, EXACT, Tolerance
from raretokens.report.revision import Revision

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Move:
    place: str  # file of the reports
    row: str
    column: str
    before: str
    after: str
    tolerance: str
    out: bool  # of its tolerance


def number_moves(place: str, row: str, column: str, before: str, after: str, drift: Tolerance) -> Iterator[Move]:
    """The move of a number; none where it stands still."""
    if before == after:
        return
    if drift.abs == float("inf"):  # words, which may change as long as there are some
        yield Move(place, row, column, before, after, "any", not (before and after))
        return
    old, new = _numbers(before), _numbers(after)
    alike = NUMBER.sub("", before) == NUMBER.sub("", after) and len(old) == len(new)
    out = not (alike and all(map(drift.allows, old, new)))
    yield Move(place, row, column, before, after, drift.bound, out)


def presence_move(place: str, row: str, column: str, old: object, new: object) -> Move:
    """Something that came or went."""
    before, after = ("" if part is None else "present" for part in (old, new))
    return Move(place, row, column, before, after, "", True)


def _numbers(text: str) -> list[float]:
    """Of a cell, which may have several, such as "1.31 / 1.18"."""
    return [float(part) for part in NUMBER.findall(text)]


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


Line = dict[str, str]
INTERVALS = (("seeds_low", "seeds_high"), ("test_low", "test_high"))
WIDER = 2.0  # how much wider or narrower an interval may become, to which other rows lend how much seeds differ


def table_moves(place: str, before: str, now: str, declared: Declarations) -> Iterator[Move]:
    return _moves(place, before, now, declared, ("row", "column"), _cell_moves)


def claims_moves(place: str, before: str, now: str, declared: Declarations) -> Iterator[Move]:
    return _moves(place, before, now, declared, ("claim",), _claim_moves)


def _moves(
    place: str,
    before: str,
    now: str,
    declared: Declarations,
    keys: tuple[str, ...],
    moves: Callable[..., Iterator[Move]],
) -> Iterator[Move]:
    old, new = (_by_key(text, keys) for text in (before, now))
    for key in dict.fromkeys([*old, *new]):
        if key in old and key in new:
            yield from moves(place, old[key], new[key], declared)
        else:
            yield presence_move(place, *(*key, "")[:2], old.get(key), new.get(key))


def _by_key(text: str, keys: tuple[str, ...]) -> dict[tuple[str, ...], Line]:
    return {tuple(line[key] for key in keys): line for line in csv_files.parse_csv(text).to_dict("records")}


def _cell_moves(place: str, old: Line, new: Line, declared: Declarations) -> Iterator[Move]:
    row, column = new["row"], new["column"]
    if old["paper"] != new["paper"]:
        yield Move(place, row, f"{column} (printed)", old["paper"], new["paper"], "exact", True)
    yield from number_moves(place, row, column, old["ours"], new["ours"], _drift(place, new, declared))


def _drift(place: str, line: Line, declared: Declarations) -> Tolerance:
    """A row that needs no model may not move; what the validation text chooses may be any."""
    table = declared.tables.get(Path(place).stem)
    metric = declared.metric(line["metric"])
    if table is None:
        return metric.drift
    if any(row.data and row.title == line["row"] for row in table.rows):
        return EXACT
    if any(fact.chosen and fact.title == line["row"] for fact in table.facts):
        return ANY
    return metric.drift_of(table.task)


def _claim_moves(place: str, old: Line, new: Line, declared: Declarations) -> Iterator[Move]:
    """A verdict may change where the numbers that it rests on moved, and no further than their tolerance.

    Where only its intervals moved, it may come to decide nothing or to decide something, but not the opposite.
    """
    claim = declared.claims.get(new["claim"])
    drift = declared.metric(new["metric"]).drift_of(claim.task if claim else "") if "metric" in new else EXACT
    sides = [side for side in ("left", "right") if side in old and side in new]
    numbers = [move for side in sides for move in number_moves(place, new["claim"], side, old[side], new[side], drift)]
    yield from numbers
    if old["verdict"] != new["verdict"]:
        why = "both sides within theirs" if numbers and not any(move.out for move in numbers) else ""
        if not numbers and "undecided" in (old["verdict"], new["verdict"]) and _intervals_moved(old, new):
            why = f"intervals within {WIDER:g} times their width"
        yield Move(place, new["claim"], "verdict", old["verdict"], new["verdict"], why, not why)


def _intervals_moved(old: Line, new: Line) -> bool:
    """Whether they did, and none became much wider or narrower, came or went."""
    ends = [(line.get(low, ""), line.get(high, "")) for low, high in INTERVALS for line in (old, new)]
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    return any(before != after for before, after in pairs) and all(
        before == after or _is_as_wide(before, after) for before, after in pairs
    )


def _is_as_wide(before: tuple[str, str], after: tuple[str, str]) -> bool:
    if "" in (*before, *after):
        return False
    was, now = (float(high) - float(low) for low, high in (before, after))
    return was / WIDER <= now <= was * WIDER


KEYS = ["panel", "run", "group"]
Series = dict[tuple[str, str, str], np.ndarray]  # panel, run, group -> x and y of each point


def figure_moves(place: str, before: str, now: str, declared: Declarations) -> Iterator[Move]:
    """Curves are compared point by point, clouds by their sorted coordinates: points have no identity across machines.

    A shift is a share of the range of the whole panel, since a curve that hardly moves has none of its own. Panels of a
    metric have its tolerance.
    """
    figure = declared.figures.get(Path(place).stem)
    limit = figure.drift if figure else 0.0
    drifts = _drifts(place, declared)
    old, new = _series(before), _series(now)
    ranges = _ranges(old)
    for key in dict.fromkeys([*old, *new]):
        panel, row = key[0], " ".join(filter(None, key))
        a, b = old.get(key), new.get(key)
        if a is None or b is None or len(a) != len(b):
            counts = ["" if part is None else f"{len(part)} points" for part in (a, b)]
            yield Move(place, row, "points", *counts, "same number", True)
        elif panel in drifts:
            yield from _metric_moves(place, row, a, b, drifts[panel])
        else:
            yield from _shift_moves(place, row, _shift(a, b, ranges[panel]), limit)


def _drifts(place: str, declared: Declarations) -> dict[str, Tolerance]:
    """Panel of a metric -> its tolerance."""
    figure = declared.figures.get(Path(place).stem)
    panels = [panel for panel in figure.panels if panel.metric] if figure else []
    return {panel.title: declared.metric(panel.metric).drift for panel in panels}


def _metric_moves(place: str, row: str, old: np.ndarray, new: np.ndarray, drift: Tolerance) -> Iterator[Move]:
    for before, now in zip(old[:, 1], new[:, 1], strict=True):
        yield from number_moves(place, row, "y", f"{before:g}", f"{now:g}", drift)


def _shift_moves(place: str, row: str, shift: float, limit: float) -> Iterator[Move]:
    if shift:
        yield Move(
            place, row, "mean shift / range", "0", f"{shift:.2g}", f"{limit:g}", not shift <= limit
        )  # NaN is none within


def _shift(old: np.ndarray, new: np.ndarray, span: np.ndarray) -> float:
    """Mean shift of the points, as a share of the panel's range; the larger of x and y."""
    if not (_is_curve(old) and _is_curve(new)):
        old, new = np.sort(old, axis=0), np.sort(new, axis=0)
    return float((np.abs(old - new).mean(axis=0) / np.maximum(span, 1e-12)).max())


def _is_curve(points: np.ndarray) -> bool:
    """x rises from point to point, which the points of a cloud do not."""
    return bool((np.diff(points[:, 0]) > 0).all())


def _series(text: str) -> Series:
    groups = csv_files.parse_csv(text).groupby(KEYS, sort=False)
    return {key: points[["x", "y"]].to_numpy(dtype=float) for key, points in groups}


def _ranges(series: Series) -> dict[str, np.ndarray]:
    """Panel -> range of x and of y."""
    panels = {panel: [points for key, points in series.items() if key[0] == panel] for panel, *_ in series}
    return {panel: np.ptp(np.concatenate(parts), axis=0) for panel, parts in panels.items()}


FOLDERS = {"tables": table_moves, "figures": figure_moves}
CLAIMS = "claims.csv"
MERGE_MARKS = ("<<<<<<< ", "||||||| ", "=======", ">>>>>>> ")


def compare(revision: Revision, declared: Declarations, reports: Path = Path("reports")) -> list[Move]:
    """Every cell of tables, claims and figures that moved, those within their tolerance too, and reports that are gone.

    Raises UserError where a file is none that this version writes.
    """
    moves: list[Move] = []
    for name in [*_names(revision, reports), CLAIMS]:
        path = reports / name
        before, now = revision.read(f"{path}"), path.read_bytes() if path.is_file() else None
        if before != now:
            moves += _file_moves(name, before, now, declared)
    lost = [name for name in revision.files(f"{reports}") if not (reports / name).is_file()]
    seen = {move.place for move in moves}
    return moves + [presence_move(name, "", "", name, None) for name in lost if name not in seen]


def _names(revision: Revision, reports: Path) -> list[str]:
    """CSV files that either side has."""
    names = {f"{kind}/{path.name}" for kind in FOLDERS for path in (reports / kind).glob("*.csv")}
    for name in revision.files(f"{reports}"):
        if name.split("/")[0] in FOLDERS and name.count("/") == 1 and name.endswith(".csv"):
            names.add(name)
    return sorted(names)


def _file_moves(name: str, before: bytes | None, now: bytes | None, declared: Declarations) -> list[Move]:
    if before is None or now is None:
        return [presence_move(name, "", "", before, now)]
    moves = claims_moves if name == CLAIMS else FOLDERS[name.split("/")[0]]
    try:
        return list(moves(name, *(_text(name, part) for part in (before, now)), declared))
    except KeyError as error:
        raise UserError(f"{name}: no column {error} on both sides; make both by one version") from None
    except ValueError as error:
        raise UserError(f"{name}: not as any version writes it: {' '.join(str(error).split())}") from None


def _text(name: str, part: bytes) -> str:
    text = part.decode("utf-8")  # its error is a ValueError
    if marked := [number for number, line in enumerate(text.split("\n"), start=1) if line.startswith(MERGE_MARKS)]:
        raise UserError(f"{name}: line {marked[0]} is the mark of an unresolved merge")
    return text
