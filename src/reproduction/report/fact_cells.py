"""Cells of a table of facts, with a parameter or a count per row and a run or a corpus per column."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, NamedTuple

from reproduction.papers.declarations import NOTHING, NUMBER, Metric, Reported, ReportedTable, number
from reproduction.papers.table import LISTS, Fact, FactPart, Subject, Table
from reproduction.papers.task_scores import TaskScores
from reproduction.report.cells import Cell, Direction, TableContext, compared, direction, why_not_run

TWICE = re.compile(r"([\d.]+)\s*-\s*\1")  # 6-6, as of an encoder and a decoder
BETWEEN = re.compile(r"\s*[;/]\s*")  # separators between several numbers in one reported cell
ROUNDED = 0.03  # relative tolerance of a number reported with a unit such as k or M: 32k stands for 32,768


class Measured(NamedTuple):
    """The measured value of a fact, or the reason why there is none."""

    value: Any = None  # a list if the cell has several numbers
    run: str = ""  # <task>/<run>
    reason: str = ""  # why there is no value
    remark: str = ""


def _measured(fact: Fact, subject: Subject, scores: TaskScores, corpus: str) -> Measured:
    """Return the measured value of a fact (row) for a subject (column), or the reason why there is none.

    `corpus` is the text of the scale.
    """
    names, texts = fact.names(subject), {fact.corpus, subject.corpus} - {None}
    if not names and (absent := subject.absent or fact.absent):
        return Measured(reason=absent)
    if texts - {corpus}:
        return Measured(reason=f"the text of this scale is {corpus}")
    if fact.parts:
        return _several(fact, subject, scores)
    is_count = bool(fact.corpus or fact.share_of)  # a count of the text needs no model
    data = subject.data or is_count or any(name in scores.baselines for name in names)
    run = scores.choose(names, data=data)
    if run is None or not scores.read(run):
        is_absent = run is None and not data and subject.absent
        return Measured(reason=subject.absent if is_absent else why_not_run(names, run, data))
    value, remark = _value(fact, fact.path.replace("{part}", subject.part), run, scores)
    reason = "" if value is not None else fact.absent or f"{run} names no {fact.path}"
    return Measured(value, f"{scores.task}/{run}", reason, remark if value is not None else "")


def _several(fact: Fact, subject: Subject, scores: TaskScores) -> Measured:
    values = [_part(fact, part, scores) for part in fact.parts]
    if all(value is None for value in values):
        runs = filter(None, (scores.choose(part.runs) for part in fact.parts))
        return Measured(reason=why_not_run(fact.names(subject), next(runs, None)))
    runs = [scores.choose(names) for part in fact.parts for names in (part.runs, part.less) if names]
    return Measured(values, " ".join(dict.fromkeys(f"{scores.task}/{run}" for run in runs if run)))


def _part(fact: Fact, part: FactPart, scores: TaskScores) -> Any:
    """Return a value, or the difference of two runs over the seeds that both have."""
    run, other = scores.choose(part.runs), scores.choose(part.less)
    if run is None:
        return None
    if not part.less:
        return _value(fact, fact.path, run, scores)[0] if scores.read(run) else None
    common = scores.seeds(run, fact.path) & scores.seeds(other, fact.path) if other else frozenset()
    sides = [scores.value(name, fact.path, common) for name in (run, other or run)]
    return sides[0].mean - sides[1].mean if common and all(sides) else None


def _value(fact: Fact, path: str, run: str, scores: TaskScores) -> tuple[Any, str]:
    """Return the value, and a remark on how it was computed."""
    if path.startswith("points."):
        points = scores.points(run)
        last = points.x[points.series == path.partition(".")[2]].astype(float).max()
        return (int(last) if last == last else None), ""
    if path.startswith(LISTS):
        return _listed(fact, path, run, scores)
    value, whole = scores.value(run, path), scores.value(run, fact.share_of) if fact.share_of else None
    if value is None or fact.share_of and whole is None:
        return None, ""
    return (round(100 * value.mean / whole.mean, 1) if whole else value.mean), ""


def _listed(fact: Fact, path: str, run: str, scores: TaskScores) -> tuple[Any, str]:
    value = scores.fact(run, path)
    value = fact.default if value is None else value
    if fact.percent and value is not None:
        return 100 * float(value), ""
    factor = scores.option(run, fact.times) if fact.times else None
    if value is None or factor is None or factor == 1:
        return value, ""
    return value * factor, f"{value:g} times {fact.times} {factor:g}"


def fact_cells(context: TableContext) -> Iterator[Cell]:
    """Yield the cells fact by fact. A corpus that the paper does not describe has a column of its own."""
    table, corpora = context.table, context.corpora
    for fact in table.facts:
        for subject in _subjects(table, corpora.get(table.task, "")):
            task = fact.task or subject.task or table.task
            paper = _paper(fact, subject, context.reported)
            found = _measured(fact, subject, context.scores_of[task], corpora.get(task, ""))
            if found.value is not None or paper.text or paper.key:
                yield _cell(context, fact, subject.title, paper, found)


def _subjects(table: Table, corpus: str) -> list[Subject]:
    known = {subject.corpus for subject in table.subjects} - {None}
    if not known or corpus in known:
        return table.subjects
    return [*table.subjects, Subject(title=corpus, corpus=corpus, runs=table.subjects[0].runs, data=True)]


def _paper(fact: Fact, subject: Subject, reported: ReportedTable) -> Reported:
    """Return what the table reports, or what the paper reports elsewhere."""
    key = (fact.title, fact.column, subject.title) if fact.column else (fact.title, subject.title, "hyperparameter")
    return Reported(fact.implied, "") if fact.implied else reported.cells.get(key, NOTHING)


def _cell(context: TableContext, fact: Fact, column: str, paper: Reported, found: Measured) -> Cell:
    row = fact.title if fact.column in (None, "all") else f"{fact.title}, {fact.column}"
    cell = Cell(row, column, fact.metric, paper.text, "", note=paper.note, reported_cell=paper.key)
    if found.value is None:
        return replace(cell, status="not run", reason=found.reason) if paper.text else cell
    metric = context.declared.metric(fact.metric)
    values = found.value if isinstance(found.value, list) else [found.value]
    texts = [_text(value, metric if fact.metric != "facts" else None) for value in values]
    reported = BETWEEN.split(paper.text) if len(values) > 1 else [paper.text]
    same = len(reported) == len(values) and None not in values
    same = same and all(map(is_same, reported, values, repeat(metric.match.abs or 0.0)))
    # Settings are compared at every scale.
    status = compared(paper.text, same, context.at_paper_scale or not fact.is_measured)
    way = _direction(paper.text, values) if fact.is_difference else ""
    marks = chain(BETWEEN.findall(paper.text), repeat("; "))  # the separators of the reported cell
    measured = texts[0] + "".join(mark + text for text, mark in zip(texts[1:], marks, strict=False))
    return replace(cell, measured=measured, runs=found.run, status=status, remark=found.remark, direction=way)


def is_same(text: str, value: Any, within: float) -> bool:
    """Whether a value equals the reported text. `within`: absolute tolerance for numbers without a unit."""
    text = twice[1] if (twice := TWICE.fullmatch(text)) else text
    reported, form = number(text), NUMBER.fullmatch(text)
    if reported is None or not form or isinstance(value, str):
        return text == str(value)
    return abs(reported - value) <= max(within, ROUNDED * reported if form["unit"] else 1e-9)


def _direction(text: str, values: list[Any]) -> Direction:
    """Return "same" if all numbers of a cell have the reported signs, "opposite" if all have the other sign, else ""."""
    reported = [number(part) for part in BETWEEN.split(text)]
    if len(reported) != len(values) or None in (*reported, *values):
        return ""
    found = {direction(value, paper or 0.0) for value, paper in zip(values, reported, strict=True)}
    return found.pop() if len(found) == 1 else ""


def _text(value: Any, metric: Metric | None) -> str:
    """Format a value. A missing number is a dash."""
    if value is None:
        return "—"
    if metric:
        return metric.text(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
