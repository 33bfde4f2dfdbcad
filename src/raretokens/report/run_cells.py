"""Cells of a table of runs: a row of runs by a column with a metric."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from raretokens.evidence.run_sheet import SheetLine
from raretokens.evidence.scores import Scores, Value
from raretokens.papers.declarations import EXACT, Declarations, Metric
from raretokens.papers.printed import NOTHING, Printed, PrintedTable, is_quoted
from raretokens.papers.table import Column, RunRow, Table
from raretokens.report.cells import Cell, Direction, Status, compared, direction


def run_rows(declared: Declarations, table: Table, scores: Scores) -> list[RunRow]:
    """The paper's rows; where the table asks for them, the other runs of its task and kind follow."""
    if not table.also:
        return table.rows
    named = declared.runs(table.task)
    lines = {run: scores.lines[run] for run in scores.repetitions if run not in named}
    others = [_other_row(table, run, line) for run, line in lines.items() if _is_comparable(table, line)]
    return [*table.rows, *{row.title: row for row in others}.values()]


def _is_comparable(table: Table, line: SheetLine) -> bool:
    """Perplexities of words and of pieces are of different things, BLEU of two directions too."""
    return line.tokens == table.own_tokens and line.reverse in {column.reverse for column in table.columns}


def _other_row(table: Table, run: str, line: SheetLine) -> RunRow:
    """The row of a run that the table does not name: in the columns of its own size or direction, so once."""
    sides = [
        column.side for column in table.columns if column.side and not column.absent and column.reverse == line.reverse
    ]
    if sides:
        return RunRow(title=run, runs={side: [run] for side in sides})
    sizes = list(dict.fromkeys(column.size for column in table.columns if column.size))
    prefix = next((f"{size}-" for size in sizes if run.startswith(f"{size}-")), "")
    if prefix:
        title = run.removeprefix(prefix)
        return RunRow(title=title, runs=["{size}-" + title])
    return RunRow(title=run, runs=[run], size=_column_size(line, sizes))


def _column_size(line: SheetLine, sizes: list[str]) -> str | None:
    """The size whose columns a run fills that has no size in its name: its own, else the first."""
    return line.size if line.size in sizes else (sizes or [None])[0]


Seeds = frozenset[int | None]


class Averaged(NamedTuple):
    """A run's number in a column, and what a reader should know of its seeds."""

    value: Value | None
    remark: str


def common_seeds(rows: list[RunRow], column: Column, scores: Scores) -> Seeds | None:
    """Seeds that more than half of the rows of runs have, of those with any score; None where none of them has the metric.

    A row without this metric counts all the same, so that the columns of a table agree.
    """
    runs = [(row, scores.choose(row.names(column))) for row in rows if not row.data]
    if not any(run and scores.seeds(run, row.metric(column)) for row, run in runs):
        return None
    own = [seeds for _, run in runs if run and (seeds := scores.scored_seeds(run))]
    rows_with = Counter(seed for seeds in own for seed in seeds)
    return frozenset(seed for seed, count in rows_with.items() if 2 * count > len(own))


def averaged(run: str, metric: str, common: Seeds | None, scores: Scores) -> Averaged:
    """Over the common seeds; a run that has none of them has its own."""
    own, outdated = scores.seeds(run, metric), _outdated(scores.outdated_runs(run))
    if common is None or not own:
        return Averaged(scores.value(run, metric), outdated)
    used = own & common or own
    said = filter(None, (_seeds_remark(own, used, common), outdated))
    return Averaged(scores.value(run, metric, used), "; ".join(said))


def _outdated(names: list[str]) -> str:
    return f"{', '.join(names)} left out: scored with other parameters" if names else ""


def _seeds_remark(own: Seeds, used: Seeds, common: Seeds) -> str:
    left_out = own - used
    if not common:
        return f"{_listed(used)} alone: no seed is that of most rows"
    if used != common:
        return f"{_listed(used)} alone; other rows average {_listed(common)}"
    return f"{_listed(left_out)} left out: most rows lack {'it' if len(left_out) == 1 else 'them'}" if left_out else ""


def _listed(seeds: Seeds) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(sorted(map(str, seeds)))}"


@dataclass(frozen=True)
class Crossing:
    """Where a row and a column meet: what is printed there, and what we have."""

    row: RunRow
    column: Column
    metric: Metric
    printed: Printed
    run: str | None
    value: Value | None
    remark: str  # on its seeds


@dataclass(frozen=True)
class Place:
    """What all cells of a table share."""

    declared: Declarations
    table: Table
    scores: Scores
    printed: PrintedTable
    at_print: bool  # whether the scale is the printed one


def run_cells(place: Place) -> list[Cell]:
    """Row by row; a place without a number, a printed one and a reason has no cell."""
    table, rows = place.table, run_rows(place.declared, place.table, place.scores)
    seeds = [common_seeds(table.rows, column, place.scores) for column in table.columns]
    columns = list(zip(table.columns, seeds, strict=True))
    grid = {row.title: [_crossing(place, row, column, common) for column, common in columns] for row in rows}
    cells = [
        _cell(place, crossing, _direction(crossing, [grid[row.title][number] for row in table.rows]))
        for inside in grid.values()
        for number, crossing in enumerate(inside)
    ]
    return [cell for cell in cells if cell.paper or cell.ours or cell.printed or cell.status == "not run"]


def _crossing(place: Place, row: RunRow, column: Column, common: Seeds | None) -> Crossing:
    metric = row.metric(column)
    run = place.scores.choose(row.names(column), data=row.data)
    value, remark = _averaged(row, run, metric, common, place.scores)
    paper = place.printed.get(row.title, column.column, column.group) or NOTHING
    if column.group in row.implied and row.names(column):
        paper = Printed(row.implied[column.group], "")
    return Crossing(row, column, place.declared.metric(metric), paper, run, value, remark)


def _averaged(row: RunRow, run: str | None, metric: str, common: Seeds | None, scores: Scores) -> Averaged:
    if run is None:
        return Averaged(None, "")
    return Averaged(scores.value(run, metric), "") if row.data else averaged(run, metric, common, scores)


def _direction(crossing: Crossing, column: list[Crossing]) -> Direction:
    """Of the difference to the row's baseline, which has none itself; column: the crossings of the paper's rows."""
    if crossing.row.data or crossing.row.title in {other.row.baseline for other in column}:
        return ""
    runs = [other for other in column if not other.row.data and other.row.names(other.column)]
    named = [other for other in runs if other.row.title == crossing.row.baseline]
    baseline = next(iter(named or runs), None)
    if baseline is None or any(None in (one.value, one.printed.value) for one in (crossing, baseline)):
        return ""
    return direction(_difference(crossing.value, baseline.value), crossing.printed.value - baseline.printed.value)


def _difference(ours: Value, baseline: Value) -> float:
    """Over the seeds that both have, where there are any."""
    of_both = set(ours.seeds) & set(baseline.seeds) or None
    first, second = (one.for_seeds(of_both) if of_both else one for one in (ours, baseline))
    return first.mean - second.mean


def _cell(place: Place, crossing: Crossing, way: Direction) -> Cell:
    value, metric, paper = crossing.value, crossing.metric, crossing.printed
    reason = "" if value or not _is_expected(place, crossing) else _reason(place, crossing)
    status = _status(place, crossing, reason)
    return Cell(
        row=crossing.row.title,
        column=crossing.column.title,
        metric=crossing.row.metric(crossing.column),
        paper=paper.text,
        ours=_shown(value.mean if value else None, metric),
        spread=_shown(_spread(crossing, place.scores), metric),
        delta=f"{value.mean - paper.value:+.{metric.digits}f}" if value and paper.value is not None else "",
        runs=" ".join(value.runs) if value else "",
        status=status,
        reason=reason if status == "not run" else "",
        note=paper.note,
        direction=way,
        remark=_remark(place, crossing) if value else "",
        printed=paper.key,
    )


def _is_expected(place: Place, crossing: Crossing) -> bool:
    """Whether a missing number is worth a word: one that the paper has, or any of a run that was not scored yet."""
    if crossing.printed.text:
        return True
    if crossing.row.title in place.printed.rows or crossing.run not in place.scores.lines:
        return False
    if place.scores.read(crossing.run) is None:
        return True
    return crossing.column.column is not None and not crossing.column.lacking


def _status(place: Place, crossing: Crossing, reason: str) -> Status:
    value, printed = crossing.value, crossing.printed
    if value is None:
        return "" if not reason else "quoted" if is_quoted(printed.note) else "not run"
    if printed.value is None:
        return "ours only"
    match = EXACT if crossing.row.data and not crossing.row.implied else crossing.metric.match
    return compared("ours", printed.text, match.allows(printed.value, value.mean), place.at_print)


def _reason(place: Place, crossing: Crossing) -> str:
    """Why there is no number."""
    row, column, run = crossing.row, crossing.column, crossing.run
    if run is not None and not place.scores.read(run):
        return f"{run} has {'scores of other parameters' if run in place.scores.outdated else 'no scores yet'}"
    if run is not None:
        return column.lacking or f"{run} has no {row.metric(column)}"
    names = " or ".join(row.names(column))
    if row.data and names:
        return row.absent or f"{names} has no scores yet"
    why = row.absent or column.absent or place.table.absent
    return why or (f"no run named {names} on the run sheet" if names else "no run is declared")


def _remark(place: Place, crossing: Crossing) -> str:
    """A number of a part of a text says so, since those beside it are of all of it."""
    metric = crossing.row.metric(crossing.column).rpartition(".")[0]
    first = crossing.run and place.scores.fact(crossing.run, f"signatures.{metric}.first")
    part = f"of the first {int(first):,} tokens of each text" if first else ""
    return "; ".join(filter(None, (crossing.row.remark, crossing.remark, part, _length(place, crossing))))


def _length(place: Place, crossing: Crossing) -> str:
    """Of a printed size that trains for another time than the table's first, so that nobody takes length for size."""
    column, first = crossing.column, place.table.columns[0]
    of_first = place.scores.choose(crossing.row.names(first))
    if not crossing.printed.text or None in (crossing.run, of_first):
        return ""
    here, there = (place.scores.fact(run, "parameters.updates") for run in (crossing.run, of_first))
    return f"{column.title} has {here:,} updates, {first.title} {there:,}" if here and there and here != there else ""


def _spread(crossing: Crossing, scores: Scores) -> float | None:
    """Over seeds; with one seed the column's interval, where it has one."""
    value, interval = crossing.value, crossing.column.interval
    if value and interval and len(value.runs) == 1:
        half = scores.value(value.runs[0], interval, value.seeds)
        return half.mean if half else None
    return value.spread if value else None


def _shown(number: float | None, metric: Metric) -> str:
    return "" if number is None else f"{number:.{metric.digits}f}"
