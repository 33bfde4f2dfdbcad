"""What moved in a CSV whose lines have names: a table or the claims."""

from collections.abc import Callable, Iterator
from pathlib import Path

from raretokens import csv_files
from raretokens.papers.declarations import Declarations
from raretokens.papers.metric import ANY, EXACT, Tolerance
from raretokens.reporting.diff.move import Move, number_moves, presence_move

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
