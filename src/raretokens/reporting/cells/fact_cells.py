"""Cells of a table of facts: a parameter or a count a row, a run or a corpus a column."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from raretokens.evidence.scores import Scores
from raretokens.papers.declarations import Declarations
from raretokens.papers.metric import Metric
from raretokens.papers.printed import NOTHING, Printed, PrintedTable
from raretokens.papers.table import Fact, Subject, Table
from raretokens.reporting.cells.cell import Cell, compared
from raretokens.reporting.cells.fact_values import Ours, ours_of
from raretokens.reporting.cells.printed_numbers import is_same, joined, parts, ways


@dataclass(frozen=True)
class Place:
    """What all cells of a table share."""

    declared: Declarations
    table: Table
    scores: dict[str, Scores]
    printed: PrintedTable
    corpora: dict[str, str]
    at_print: bool  # whether the scale is the printed one, which only what is measured needs


def fact_cells(place: Place) -> Iterator[Cell]:
    """Fact by fact; where the scale's corpus is none that the paper describes, it gets a column of its own."""
    for fact in place.table.facts:
        for subject in _subjects(place.table, place.corpora.get(place.table.task, "")):
            task = fact.task or subject.task or place.table.task
            paper = _paper(fact, subject, place.printed)
            ours = ours_of(fact, subject, place.scores[task], place.corpora.get(task, ""), place.table.absent)
            if ours.value is not None or paper.text or paper.key:
                yield _cell(place, fact, subject.title, paper, ours)


def _subjects(table: Table, corpus: str) -> list[Subject]:
    known = {subject.corpus for subject in table.subjects} - {None}
    if not known or corpus in known:
        return table.subjects
    return [*table.subjects, Subject(title=corpus, corpus=corpus, runs=table.subjects[0].runs, data=True)]


def _paper(fact: Fact, subject: Subject, printed: PrintedTable) -> Printed:
    """What the table prints, or what the paper says elsewhere."""
    key = (fact.title, fact.column, subject.title) if fact.column else (fact.title, subject.title, "hyperparameter")
    return Printed(fact.implied, "") if fact.implied else printed.cells.get(key, NOTHING)


def _cell(place: Place, fact: Fact, column: str, paper: Printed, ours: Ours) -> Cell:
    row = fact.title if fact.column in (None, "all") else f"{fact.title}, {fact.column}"
    cell = Cell(row, column, fact.metric, paper.text, "", note=paper.note, printed=paper.key)
    if ours.value is None:
        return replace(cell, status="not run" if paper.text else "", reason=ours.reason if paper.text else "")
    metric = place.declared.metric(fact.metric)
    values = ours.value if isinstance(ours.value, list) else [ours.value]
    texts = [_text(value, metric if fact.metric != "facts" else None) for value in values]
    same = _is_same(paper.text, values, metric.match.abs or 0.0)
    status = compared("ours", paper.text, same, place.at_print or not fact.is_measured)
    way = ways(paper.text, values) if fact.is_difference else ""
    about = {"runs": ours.run, "status": status, "remark": ours.remark, "direction": way}
    return replace(cell, ours=joined(texts, paper.text), **about)


def _is_same(paper: str, values: list[Any], within: float) -> bool:
    """Whether all numbers of a cell are the printed ones."""
    if len(values) == 1:
        return is_same(paper, values[0], within)
    printed = parts(paper)
    return len(printed) == len(values) and all(
        value is not None and is_same(text, value, within) for text, value in zip(printed, values, strict=True)
    )


def _text(value: Any, metric: Metric | None) -> str:
    """A missing one of several numbers is a dash."""
    if value is None:
        return "—"
    if metric:
        return f"{value:.{metric.digits}f}"
    return f"{value:g}" if isinstance(value, float) else str(value)
