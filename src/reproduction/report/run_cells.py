"""Cells of a table of runs, with a run per row and a metric per column."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import mean

from raretokens.claims.scores import SheetLine, Value
from reproduction.papers.declarations import EXACT, NOTHING, Declarations, Metric, Reported, is_quoted
from reproduction.papers.logit_bias import baselines
from reproduction.papers.methods import EXPLAINED_BY_BIAS
from reproduction.papers.table import Column, RunRow, Table
from reproduction.papers.task_scores import TaskScores
from reproduction.report.cells import Cell, Direction, Status, TableContext, compared, direction, why_not_run


def run_rows(declared: Declarations, table: Table, scores: TaskScores) -> list[RunRow]:
    """Return the paper's rows. If the table sets `also`, other comparable runs of its task follow."""
    if not table.also:
        return table.rows
    named, setting = set(scores.own_names(declared.runs(table.task))), scores.setting
    lines = {run: scores.lines[run] for run in scores.repetitions if run not in named}
    models = {scores.lines[run].model for run in scores.own_names(table.runs) if run in scores.lines}
    tokens = (setting and setting.tokens) or table.own_tokens
    fitting = {run: line for run, line in lines.items() if _is_comparable(table, tokens, models, line)}
    if setting:
        fitting = {run: line for run, line in fitting.items() if line.model in setting.models}
    others = [_other_row(table, setting.declared(run) if setting else run, line) for run, line in fitting.items()]
    return [*table.rows, *{row.title: row for row in others}.values()]


def _is_comparable(table: Table, tokens: str, models: set[str], line: SheetLine) -> bool:
    """Whether a run has these tokens and a direction of its columns, and no variant of `models`, those of its own runs.

    A variant has the name of a model config, a hyphen and more, such as base-1k: the same model in other training settings. Its
    numbers say nothing about a method, as those of other texts.
    """
    directions = {column.reverse for column in table.columns}
    is_variant = any(line.model.startswith(f"{model}-") for model in models)
    return line.tokens == tokens and line.reverse in directions and not is_variant


def _other_row(table: Table, run: str, line: SheetLine) -> RunRow:
    """Return the row of a run that the table does not name, in the columns of its own model config or direction.

    The name of the run is that of a declaration, also in a setting.
    """
    columns = [column for column in table.columns if column.reverse == line.reverse]
    if sides := [column.side for column in columns if column.side and not column.absent]:
        return RunRow(title=run, runs={side: [run] for side in sides})
    sizes = list(dict.fromkeys(column.size for column in table.columns if column.size))
    prefix = next((f"{size}-" for size in sizes if run.startswith(f"{size}-")), "")
    if prefix:
        title = run.removeprefix(prefix)
        return RunRow(title=title, runs=["{size}-" + title])
    own = line.model if line.model in sizes else (sizes or [None])[0]
    return RunRow(title=run, runs=[run], size=own)


Seeds = frozenset[int | None]
BIAS = {f"ppl.{kind}": kind for kind in ("freq", "med", "rare", "total")}  # metric -> number of the logit-bias baseline
BIAS_REMARK = (
    "the logit-bias baseline, which adds one constant to the logits of rare types. The validation text chooses the constant, so "
    "that the mean P(rare) or the total perplexity is that of the named run"
)


def common_seeds(rows: list[RunRow], column: Column, scores: TaskScores) -> Seeds | None:
    """Return the seeds of more than half of the scored rows, or None if no row has the metric.

    A row without this metric counts as well, so that the columns of a table agree. Requiring all rows would be stricter, but
    then a single row with one seed would exclude the other seeds of all rows.
    """
    runs = [(row, scores.choose(row.names(column))) for row in rows if not row.data]
    if not any(run and scores.seeds(run, row.metric(column)) for row, run in runs):
        return None
    own = [seeds for _, run in runs if run and (seeds := scores.scored_seeds(run))]
    rows_with = Counter(seed for seeds in own for seed in seeds)
    return frozenset(seed for seed, count in rows_with.items() if 2 * count > len(own))


def _seeds_remark(own: Seeds, used: Seeds, common: Seeds) -> str:
    left_out = own - used
    if not common:
        return f"{_listed(used)} alone: no seed is that of most rows"
    if used != common:
        return f"{_listed(used)} alone; other rows average {_listed(common)}"
    return f"{_listed(left_out)} left out: most rows lack {'it' if len(left_out) == 1 else 'them'}" if left_out else ""


def _listed(seeds: Seeds) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(sorted(map(str, seeds)))}"


def run_cells(context: TableContext) -> list[Cell]:
    """Return the cells row by row. A place without a measured number, a reported number and a reason has no cell."""
    table, rows = context.table, run_rows(context.declared, context.table, context.scores)
    columns = [(column, common_seeds(table.rows, column, context.scores)) for column in table.columns]
    grid = {row.title: [CellSource(context, row, column, common) for column, common in columns] for row in rows}
    cells = [
        source.cell(source.direction([grid[row.title][number] for row in table.rows]))
        for inside in grid.values()
        for number, source in enumerate(inside)
    ]
    cells = [cell for cell in cells if cell.reported or cell.measured or cell.reported_cell or cell.status == "not run"]
    return cells + [cell for row in table.rows for cell in bias_cells(context, row)]


def bias_cells(context: TableContext, row: RunRow) -> Iterator[Cell]:
    """Yield the rows of the logit-bias baseline of a run, in a table of rare-token perplexity.

    A baseline has no row where what it was matched on does not determine the constant.
    """
    table, scores = context.table, context.scores
    columns = {column.title: column for column in table.columns if column.metric in BIAS}
    rare = next((column for column in columns.values() if column.metric == EXPLAINED_BY_BIAS), None)
    run = scores.choose(row.names(rare)) if rare and not row.data else None
    for one in baselines(run, scores) if run else []:
        if one.parameters > 1 or one.group != "rare" or not all(bias.is_determined for bias in one.biases.values()):
            continue
        mles = dict.fromkeys(mle for name in scores.repeats(run or "") if (mle := scores.baseline_run(name)))
        name = f"MLE + logit bias, same {one.equal} as {row.title}"
        about = {"runs": " ".join(mles), "status": "not reported", "remark": BIAS_REMARK}
        for title, column in columns.items():
            metric = context.declared.metric(column.metric)
            numbers = [getattr(bias, BIAS[column.metric]) for bias in one.biases.values()]
            spread = (max(numbers) - min(numbers)) / 2 if len(numbers) > 1 else None
            yield Cell(name, title, column.metric, "", metric.text(mean(numbers)), metric.text(spread), **about)


@dataclass(frozen=True)
class CellSource:
    """A row in a column: the reported number and the measured number."""

    context: TableContext
    row: RunRow
    column: Column
    common: Seeds | None  # the seeds that the rows of the column average

    @cached_property
    def path(self) -> str:
        return self.row.metric(self.column)

    @cached_property
    def metric(self) -> Metric:
        return self.context.declared.metric(self.path)

    @cached_property
    def run(self) -> str | None:
        return self.context.scores.choose(self.row.names(self.column), data=self.row.data)

    @cached_property
    def reported(self) -> Reported:
        paper = self.context.reported.get(self.row.title, self.column.column, self.column.group) or NOTHING
        is_implied = self.column.group in self.row.implied and self.row.names(self.column)
        return Reported(self.row.implied[self.column.group], "") if is_implied else paper

    @cached_property
    def used_seeds(self) -> Seeds | None:
        """The common seeds of the run. If it has none of them, all its own seeds; None: no restriction."""
        own = frozenset() if self.row.data or self.run is None else self.context.scores.seeds(self.run, self.path)
        return None if self.common is None or not own else own & self.common or own

    @cached_property
    def value(self) -> Value | None:
        return self.context.scores.value(self.run, self.path, self.used_seeds) if self.run else None

    def direction(self, column: "list[CellSource]") -> Direction:
        """Compare the sign of the difference from the row's baseline with the reported sign. A baseline itself has no direction.

        `column` has the sources of the paper's rows in this column.
        """
        if self.row.data or self.row.title in {other.row.baseline for other in column}:
            return ""
        runs = [other for other in column if not other.row.data and other.row.names(other.column)]
        named = [other for other in runs if other.row.title == self.row.baseline]
        baseline = next(iter(named or runs), None)
        if baseline is None or any(None in (one.value, one.reported.value) for one in (self, baseline)):
            return ""
        # Use the seeds that both have, if there are any.
        of_both = set(self.value.seeds) & set(baseline.value.seeds) or None
        own, others = (one.value.for_seeds(of_both) if of_both else one.value for one in (self, baseline))
        return direction(own.mean - others.mean, self.reported.value - baseline.reported.value)

    def cell(self, way: Direction) -> Cell:
        value, paper = self.value, self.reported
        reason = self._reason() if value is None and self._is_expected() else ""
        status = self._status(reason)
        return Cell(
            row=self.row.title,
            column=self.column.title,
            metric=self.path,
            reported=paper.text,
            measured=self.metric.text(value.mean if value else None),
            spread=self.metric.text(self._spread()),
            delta=f"{value.mean - paper.value:+.{self.metric.digits}f}" if value and paper.value is not None else "",
            runs=" ".join(value.runs) if value else "",
            status=status,
            reason=reason if status == "not run" else "",
            note=paper.note,
            direction=way,
            remark="; ".join(filter(None, self._remarks())) if value else "",
            reported_cell=paper.key,
        )

    def _is_expected(self) -> bool:
        """Whether to explain a missing number: the paper reports one, or the run has no scores yet."""
        if self.reported.text:
            return True
        if self.row.title in self.context.reported.rows or self.run not in self.context.scores.lines:
            return False
        if self.context.scores.read(self.run) is None:
            return True
        return self.column.column is not None and not self.column.lacking

    def _status(self, reason: str) -> Status:
        if self.value is None:
            return "" if not reason else "quoted" if is_quoted(self.reported.note) else "not run"
        if self.reported.value is None:
            return "not reported"
        match = EXACT if self.row.data and not self.row.implied else self.metric.match
        is_same = match.allows(self.reported.value, self.value.mean)
        return compared(self.reported.text, is_same, self.context.at_paper_scale)

    def _reason(self) -> str:
        """Return why there is no number."""
        row, column, run, scores = self.row, self.column, self.run, self.context.scores
        names = row.names(column)
        if run is not None and scores.read(run):
            return column.lacking or f"{run} has no {self.path}"
        if run is not None:
            return f"{run} has scores of other parameters" if run in scores.outdated else why_not_run(names, run)
        absent = row.absent or (column.absent if not (row.data and names) else None)
        return absent or (why_not_run(scores.own_names(names), None, row.data) if names else "no run is declared")

    def _remarks(self) -> Iterator[str | None]:
        yield self.row.remark
        scores, run = self.context.scores, self.run or ""
        if self.used_seeds:
            yield _seeds_remark(scores.seeds(run, self.path), self.used_seeds, self.common)
        if not self.row.data and (outdated := scores.outdated_runs(run)):
            yield f"{', '.join(outdated)} left out: scored with other parameters"
        # Most metrics are of the whole text, so a metric of its beginning needs a remark.
        if first := scores.fact(run, f"signatures.{self.path.rpartition('.')[0]}.first"):
            yield f"of the first {int(first):,} tokens of each text"
        # Otherwise readers could attribute an effect of the number of training steps to the model config.
        first_column = self.context.table.columns[0]
        of_first = scores.choose(self.row.names(first_column))
        if self.reported.text and of_first:
            here, there = (scores.fact(name, "parameters.steps") for name in (run, of_first))
            if here and there and here != there:
                yield f"{self.column.title} has {here:,} training steps, {first_column.title} {there:,}"

    def _spread(self) -> float | None:
        """Return the spread over seeds. With one seed, return the metric of the column's `interval`, if it is set."""
        value, interval = self.value, self.column.interval
        if value and interval and len(value.runs) == 1:
            half = self.context.scores.value(value.runs[0], interval, value.seeds)
            return half.mean if half else None
        return value.spread if value else None
