"""Cells of a table of facts: a parameter or a count a row, a run or a corpus a column."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from raretokens.reporting.cells.cell import Cell, compared
from raretokens.reporting.cells.printed_numbers import is_same
from raretokens.reporting.declarations.declared import Declarations
from raretokens.reporting.declarations.fact import LISTS, Fact, Subject
from raretokens.reporting.declarations.metric import Metric
from raretokens.reporting.declarations.paper_table import Table
from raretokens.reporting.declarations.printed import NOTHING, Printed, PrintedTable
from raretokens.reporting.scored import Scores


class Ours(NamedTuple):
    value: Any = None
    run: str = ""  # <task>/<run>
    reason: str = ""  # of no value


def fact_cells(
    declared: Declarations, table: Table, scores: dict[str, Scores], printed: PrintedTable, corpora: dict[str, str]
) -> Iterator[Cell]:
    """Fact by fact; where the scale's corpus is none that the paper describes, it gets a column of its own."""
    for fact in table.facts:
        for subject in _subjects(table, corpora[table.task]):
            task = subject.task or table.task
            paper = printed.cells.get(_key(fact, subject), NOTHING)
            ours = _ours(fact, subject, scores[task], corpora[task])
            if ours.value is not None or paper.text:
                yield _cell(fact, subject.title, declared.metric(fact.metric), paper, ours)


def _subjects(table: Table, corpus: str) -> list[Subject]:
    known = {subject.corpus for subject in table.subjects} - {None}
    if not known or corpus in known:
        return table.subjects
    return [*table.subjects, Subject(title=corpus, corpus=corpus, runs=table.subjects[0].runs, data=True)]


def _key(fact: Fact, subject: Subject) -> tuple[str, str, str]:
    """Row, column and group in print."""
    return (fact.title, fact.column, subject.title) if fact.column else (fact.title, subject.title, "hyperparameter")


def _ours(fact: Fact, subject: Subject, scores: Scores, corpus: str) -> Ours:
    if subject.absent:
        return Ours(reason=subject.absent)
    if subject.corpus not in (None, corpus):
        return Ours(reason=f"the text of this scale is {corpus}")
    names = fact.names(subject)
    run = scores.choose(names, data=subject.data)
    if run is None and not subject.data:
        return Ours(reason=f"no run named {' or '.join(names)} on the run sheet")
    if run is None or not scores.read(run):
        return Ours(reason=f"{run or ' or '.join(names)} has no scores yet")
    value = _value(fact, fact.path.replace("{part}", subject.part), run, scores)
    reason = "" if value is not None else fact.absent or f"{run} names no {fact.path}"
    return Ours(value, f"{scores.task}/{run}", reason)


def _value(fact: Fact, path: str, run: str, scores: Scores) -> Any:
    if fact.fixed is not None:
        return fact.fixed
    if path.startswith(LISTS):
        value = scores.fact(run, path)
        return fact.default if value is None else value
    value = scores.value(run, path)
    return value.mean if value else None


def _cell(fact: Fact, column: str, metric: Metric, paper: Printed, ours: Ours) -> Cell:
    row = fact.title if fact.column in (None, "all") else f"{fact.title}, {fact.column}"
    if ours.value is None:
        return Cell(row, column, fact.metric, paper.text, "", status="not run", reason=ours.reason, note=paper.note)
    text = _text(ours.value) if fact.metric == "facts" else f"{ours.value:.{metric.digits}f}"
    status = compared(text, paper.text, is_same(paper.text, ours.value, metric.match.abs or 0.0))
    return Cell(row, column, fact.metric, paper.text, text, runs=ours.run, status=status, note=paper.note)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
