"""What a table needs to be made: the DVC targets of the runs that its own rows name."""

from collections.abc import Iterator

from raretokens.evidence.scores import Scores
from raretokens.papers.table import Table


def targets(table: Table, scores: dict[str, Scores]) -> list[str]:
    """`score-lm@mle`, ... for the runs on the run sheet, then `baseline@lm`, ... for rows that need no model."""
    needed = dict.fromkeys(_target(task, names, data, scores) for task, names, data in _wanted(table))
    return sorted(filter(None, needed), key=lambda target: target.startswith("baseline@"))


def _wanted(table: Table) -> Iterator[tuple[str, list[str], bool]]:
    """Task, names that are tried in order, and whether they need no model."""
    for row in table.rows:
        yield from ((table.task, row.names(column), row.data) for column in table.columns)
    for row in table.rows if table.neighbours else ():
        yield table.task, row.runs, False
    for subject in table.subjects:
        yield from ((subject.task or table.task, fact.names(subject), subject.data) for fact in table.facts)


def _target(task: str, names: list[str], data: bool, scores: dict[str, Scores]) -> str | None:
    if data:
        corpora = scores[task].baselines
        return next((f"baseline@{corpora[name]}" for name in names if name in corpora), None)
    run = scores[task].choose(names)
    if run is None:
        return None
    return f"score-{task}-continued@{run}" if scores[task].lines[run].after else f"score-{task}@{run}"
