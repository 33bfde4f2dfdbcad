"""Tables of facts: a parameter or a count a row, a run or a corpus a column."""

import re
from collections.abc import Iterator
from typing import Any

from raretokens.tables.cell import Cell
from raretokens.tables.declarations import Declarations, Fact, Subject, Table
from raretokens.tables.printed import Printed, PrintedTable
from raretokens.tables.scored import Scores

PRINTED_NUMBER = re.compile(r"(?P<number>[\d.]+(?:e-?\d+)?)(?P<unit>[kM]?)(?:\s*-\s*(?P<again>\d+))?")
UNITS = {"": 1.0, "k": 1e3, "M": 1e6}
ROUNDED = 0.03  # what a number printed with k or M may be off: 32k stands for 32,768


def fact_cells(
    declared: Declarations, table: Table, scores: dict[str, Scores], printed: PrintedTable, corpora: dict[str, str]
) -> Iterator[Cell]:
    """Fact by fact; where the scale's corpus is none that the paper describes, it gets a column of its own."""
    for fact in table.facts:
        whole = fact.column in (None, "all")
        row = fact.title if whole else f"{fact.title}, {fact.column}"
        for subject in subjects(table, corpora):
            place = (
                (fact.title, fact.column, subject.title)
                if fact.column
                else (fact.title, subject.title, "hyperparameter")
            )
            task = subject.task or table.task
            reason, stem, value = _ours(fact, subject, scores[task], corpora[task])
            paper = printed.cells.get(place, Printed("", ""))
            yield _cell(declared, fact, subject, row, paper, value, f"{task}/{stem}" if stem else "", reason)


def subjects(table: Table, corpora: dict[str, str]) -> list[Subject]:
    known = {subject.corpus for subject in table.subjects} - {None}
    ours = corpora[table.task]
    if not known or ours in known:
        return table.subjects
    return [*table.subjects, Subject(title=ours, corpus=ours, runs=table.subjects[0].runs, data=True)]


def runs_of(fact: Fact, subject: Subject) -> list[str]:
    return fact.runs.get(subject.title, subject.runs)


def _ours(fact: Fact, subject: Subject, scores: Scores, corpus: str) -> tuple[str, str | None, Any]:
    """Reason for no value, the run, the value."""
    names = runs_of(fact, subject)
    stem = scores.choose(names, data=subject.data)
    if absent := fact.absent or subject.absent:
        return absent, None, None
    if subject.corpus not in (None, corpus):
        return f"the text of this scale is {corpus}", None, None
    if stem is None or not scores.read(stem):
        names = " or ".join(names)
        return (
            (
                f"{stem or names} has no scores yet"
                if stem or subject.data
                else f"no run named {names} on the run sheet"
            ),
            None,
            None,
        )
    path = fact.path.replace("{part}", subject.part)
    if fact.fixed is not None:
        value: Any = fact.fixed
    elif path.startswith(("parameters.", "options.")):
        value = scores.fact(stem, path)
        value = fact.default if value is None else value
    else:
        found = scores.value(stem, path)
        value = found.mean if found else None
    return ("" if value is not None else f"{stem} names no {path.split('.', 1)[1]}"), stem, value


def _cell(
    declared: Declarations, fact: Fact, subject: Subject, row: str, paper: Printed, value: Any, run: str, reason: str
) -> Cell:
    is_metric = bool(fact.path) and not fact.path.startswith(("parameters.", "options."))
    metric = fact.path.replace("{part}", "") if is_metric else "facts"
    ours = "" if value is None else f"{value:.{declared.metric(metric).digits}f}" if is_metric else _shown(value)
    same = _same(paper.text, value, declared.metric(metric).match.abs or 0.0)
    status = "not run" if value is None else "ours only" if not paper.text else "match" if same else "differs"
    if not paper.text and value is None:
        status = reason = ""
    return Cell(row, subject.title, metric, paper.text, ours, "", "", run, status, reason, paper.note)


def _shown(value: Any) -> str:
    return (
        f"{value:,}"
        if isinstance(value, int) and value >= 10_000
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _same(text: str, value: Any, within: float) -> bool:
    """Whether a number is the printed one; `6-6` are the layers of an encoder and a decoder, `32k` is rounded."""
    found = PRINTED_NUMBER.fullmatch(text)
    if not found or value is None or isinstance(value, str):
        return text == str(value)
    if found["again"] and found["again"] != found["number"]:
        return False
    number = float(found["number"]) * UNITS[found["unit"]]
    return abs(number - value) <= max(within, ROUNDED * number if found["unit"] else 1e-9)
