"""Rows of a table of runs: the paper's, and those of runs that no paper's item names."""

from raretokens.evidence.run_sheet import SheetLine
from raretokens.evidence.scores import Scores
from raretokens.papers.declarations import Declarations
from raretokens.papers.table import RunRow, Table


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
