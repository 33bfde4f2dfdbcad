"""Tables of facts: a parameter or a count a row, a run or a corpus a column."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.declarations.printed import Printed, PrintedTable
from raretokens.reporting.declarations.schema import Declarations, Fact, Metric, Subject, Table
from raretokens.reporting.scored import Scores

PRINTED_NUMBER = re.compile(r"(?P<number>[\d.]+(?:e-?\d+)?)(?P<unit>[kM]?)(?:\s*-\s*(?P<again>\d+))?")
UNITS = {"": 1.0, "k": 1e3, "M": 1e6}
ROUNDED = 0.03  # what a number printed with k or M may be off: 32k stands for 32,768
LISTS = ("parameters.", "options.")  # of a score file; a path that begins otherwise is a metric


class Ours(NamedTuple):
    value: Any = None
    run: str = ""  # <task>/<run>
    reason: str = ""  # of no value


def fact_cells(
    declared: Declarations, table: Table, scores: dict[str, Scores], printed: PrintedTable, corpora: dict[str, str]
) -> Iterator[Cell]:
    """Fact by fact; where the scale's corpus is none that the paper describes, it gets a column of its own."""
    for fact in table.facts:
        metric = "facts" if fact.fixed is not None or fact.path.startswith(LISTS) else fact.path.replace("{part}", "")
        for subject in subjects(table, corpora):
            key = (fact.column, subject.title) if fact.column else (subject.title, "hyperparameter")
            paper = printed.cells.get((fact.title, *key), Printed("", ""))
            task = subject.task or table.task
            ours = _ours(fact, subject, scores[task], corpora[task])
            if ours.value is not None or paper.text:
                yield _cell(fact, subject.title, metric, declared.metric(metric), paper, ours)


def subjects(table: Table, corpora: dict[str, str]) -> list[Subject]:
    known = {subject.corpus for subject in table.subjects} - {None}
    ours = corpora[table.task]
    if not known or ours in known:
        return table.subjects
    return [*table.subjects, Subject(title=ours, corpus=ours, runs=table.subjects[0].runs, data=True)]


def _ours(fact: Fact, subject: Subject, scores: Scores, corpus: str) -> Ours:
    if subject.absent:
        return Ours(reason=subject.absent)
    if subject.corpus not in (None, corpus):
        return Ours(reason=f"the text of this scale is {corpus}")
    names = fact.names(subject)
    stem = scores.choose(names, data=subject.data)
    if stem is None and not subject.data:
        return Ours(reason=f"no run named {' or '.join(names)} on the run sheet")
    if stem is None or not scores.read(stem):
        return Ours(reason=f"{stem or ' or '.join(names)} has no scores yet")
    value = _value(fact, fact.path.replace("{part}", subject.part), stem, scores)
    return Ours(
        value, f"{scores.task}/{stem}", "" if value is not None else fact.absent or f"{stem} names no {fact.path}"
    )


def _value(fact: Fact, path: str, stem: str, scores: Scores) -> Any:
    if fact.fixed is not None:
        return fact.fixed
    if path.startswith(LISTS):
        value = scores.fact(stem, path)
        return fact.default if value is None else value
    found = scores.value(stem, path)
    return found.mean if found else None


def _cell(fact: Fact, column: str, metric: str, shown: Metric, paper: Printed, ours: Ours) -> Cell:
    row = fact.title if fact.column in (None, "all") else f"{fact.title}, {fact.column}"
    if ours.value is None:
        return Cell(row, column, metric, paper.text, "", "", "", "", "not run", ours.reason, paper.note)
    text = _text(ours.value) if metric == "facts" else f"{ours.value:.{shown.digits}f}"
    same = _same(paper.text, ours.value, shown.match.abs or 0.0)
    status = "ours only" if not paper.text else "match" if same else "differs"
    return Cell(row, column, metric, paper.text, text, "", "", ours.run, status, "", paper.note)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _same(text: str, value: Any, within: float) -> bool:
    """Whether a number is the printed one; `6-6` are the layers of an encoder and a decoder, `32k` is rounded."""
    found = PRINTED_NUMBER.fullmatch(text)
    if not found or isinstance(value, str):
        return text == str(value)
    if found["again"] and found["again"] != found["number"]:
        return False
    number = float(found["number"]) * UNITS[found["unit"]]
    return abs(number - value) <= max(within, ROUNDED * number if found["unit"] else 1e-9)
