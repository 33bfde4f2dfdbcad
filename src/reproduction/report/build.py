"""Write all reports of a scale, from its score files and the declarations."""

import csv
import json
import platform
import shutil
from collections import Counter
from collections.abc import Iterator
from copy import copy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from raretokens import csv_files
from raretokens.claims.verdict import Verdict
from raretokens.errors import UserError
from raretokens.files import write_text
from reproduction.papers import methods
from reproduction.papers.declarations import Declarations
from reproduction.papers.logit_bias import decompositions, implied
from reproduction.papers.setting import TASKS
from reproduction.papers.table import Figure, Table
from reproduction.papers.task_scores import AllScores, TaskScores
from reproduction.papers.verdicts import judge_all, shown_of, views
from reproduction.report import claims, findings, forest, method_tables, paper_pages, regimes
from reproduction.report import decomposition_page as decomposition
from reproduction.report.cells import Cell, reported_counts
from reproduction.report.figure_points import PanelPoints, figure_points
from reproduction.report.figures import write_figure
from reproduction.report.markdown import render
from reproduction.report.tables import table_cells, to_latex, write_table
from reproduction.run_sheet import Sheet

PACKAGES = ("torch", "sentencepiece", "ctranslate2", "sacrebleu", "scipy", "numpy")


def write(sheet: Sheet, declared: Declarations, reports: Path) -> str:
    """Write tables, figures, claims, index and headline numbers. Return the verdict counts in words."""
    scores, scale, declared = AllScores(sheet, reports / "runs"), sheet.scale, declared.of_scale(sheet.scale)
    for folder in ("tables", "figures", "plots", "papers", "charts"):
        shutil.rmtree(reports / folder, ignore_errors=True)
        (reports / folder).mkdir(parents=True)
    cells: dict[str, list[Cell]] = {}
    settings: dict[str, dict[str, str]] = {}  # table -> file of the table in another setting -> title of the setting
    for name, table in declared.tables.items():
        for setting, own in _versions(table, sheet, declared, scores):
            file, title = f"{name}-{setting}" if name in cells else name, _title(setting, declared)
            if file != name:
                settings.setdefault(name, {})[file] = title
            write_table(file, table, own, reports, title)
            cells.setdefault(name, own)
    for name, figure in declared.figures.items():
        write_figure(points_in_setting(figure, declared, scores), reports / "figures", name)
    verdicts, compared, split = judge_all(declared, scores), methods.changes(declared, scores), decompositions(scores)
    counts = claims.in_words(verdicts, declared)
    found = findings.to_markdown(verdicts, compared, split, declared.settings, scores["lm"])
    by_setting = regimes.entries(declared, scores["lm"])
    texts = {
        "claims.csv": claims.to_csv(verdicts),
        "verdicts.csv": claims.verdict_counts(verdicts),
        "other-verdicts.csv": claims.other_counts(verdicts),
        "main.csv": claims.main_claims(verdicts),
        "headline.json": json.dumps(claims.headline(verdicts), indent=1, ensure_ascii=False) + "\n",
        "methods.csv": method_tables.to_csv(compared),
        "methods.md": method_tables.to_markdown(compared, declared),
        "decomposition.csv": decomposition.to_csv(split),
        "decomposition.md": decomposition.to_markdown(split, implied(declared), scale),
        "regimes.csv": regimes.to_csv(by_setting),
        "regimes.md": regimes.to_markdown(by_setting, declared),
        "findings.md": found,
    }
    overview = {
        "verdicts": counts,
        "counts": list(csv.reader(texts["verdicts.csv"].splitlines())),
        "main": claims.main_table(verdicts, "papers/").rstrip(),
        "findings": found.rstrip(),
        "few_seeds": claims.seeds_in_words(verdicts),
    }
    texts["index.md"] = render("index.md", **overview, **_overview(sheet, declared, cells, settings, scores))
    texts |= {f"plots/{task}.csv": curves_of_all_runs(part, reports / "curves" / task) for task, part in scores.items()}
    pages = paper_pages.pages(verdicts, declared, scale, scores, settings)
    texts |= {f"papers/{name}": page for name, page in pages.items()}
    for name, text in texts.items():
        write_text(reports / name, text)
    _draw_forests(verdicts, declared, scale, reports)
    decomposition.write_chart(split, scores, reports / "charts/logit-bias.svg")
    return counts


def points_in_setting(figure: Figure, declared: Declarations, scores: dict[str, TaskScores]) -> list[PanelPoints]:
    """Return the points of a figure in the nearest setting that lacks the fewest, or as its runs are declared."""
    own = [panel for panel in figure.panels if (panel.task or figure.task) == figure.task and not panel.data]
    found = views(declared.settings, scores[figure.task], (runs for panel in own for runs in panel.runs.values()))
    tried = [_with_view(scores, figure.task, view) for _, view in found]
    shown = (figure_points(figure, one, declared) for one in (*tried, scores))
    return min(shown, key=lambda panels: sum(len(panel.absent) for panel in panels))


def _with_view(scores: dict[str, TaskScores], task: str, view: TaskScores) -> dict[str, TaskScores]:
    """Return all scores, with those of a task replaced by its scores in a setting."""
    own = copy(scores)  # keeps the class, which knows tasks without runs
    own[task] = view
    return own


def _draw_forests(verdicts: list[Verdict], declared: Declarations, scale: str, reports: Path) -> None:
    """Draw the forest plots of the main claims and of each paper."""
    plots = {"forest.svg": ([one for one in verdicts if one.claim.main], f"Main conclusions of the papers at the {scale} scale")}
    for paper in declared.papers:
        plots[f"papers/{paper.lower()}-forest.svg"] = (shown_of(paper, verdicts), f"Conclusions of {paper} at the {scale} scale")
    for name, (shown, title) in plots.items():
        rows = forest.fraction_rows(shown)
        forest.write_forest(rows, reports / name, title, forest.left_out(shown, rows))


def one_table(name: str, sheet: Sheet, declared: Declarations, reports: Path, as_latex: bool = False) -> str:
    """Write the files of one table. Return its Markdown or LaTeX."""
    table, declared = declared.table(name), declared.of_scale(sheet.scale)
    setting, cells = next(_versions(table, sheet, declared, AllScores(sheet, reports / "runs")))
    markdown = write_table(name, table, cells, reports, _title(setting, declared))
    return to_latex(table, cells, name) if as_latex else markdown


def needed(name: str, sheet: Sheet, declared: Declarations, reports: Path) -> list[str]:
    """Return the DVC targets of a table. `reports` contains the score files below `runs`.

    Raises:
        UserError: if there are no targets. DVC would interpret an empty list as all targets.
    """
    table = declared.table(name)
    _, own = next(_settings_of(table, declared.of_scale(sheet.scale), AllScores(sheet, reports / "runs")))
    targets = dvc_targets(table, own)
    if not targets:
        raise UserError(f"{name}: no run of this table is on the run sheet")
    return targets


def dvc_targets(table: Table, scores: dict[str, TaskScores]) -> list[str]:
    """Return `score-lm@mle`, ... for the runs on the run sheet, then `baseline@lm`, ... for rows that need no model."""
    wanted = dict.fromkeys(_dvc_target(task, names, data, scores) for task, names, data in _wanted(table))
    return sorted(filter(None, wanted), key=lambda target: target.startswith("baseline@"))


def _wanted(table: Table) -> Iterator[tuple[str, list[str], bool]]:
    """Yield a task, names of runs in the order in which they are tried, and whether the runs need no model."""
    for row in table.rows:
        yield from ((table.task, row.names(column), row.data) for column in table.columns)
    for row in table.rows if table.neighbours else ():
        yield table.task, row.runs, False
    for subject in table.subjects:
        yield from ((subject.task or table.task, fact.names(subject), subject.data) for fact in table.facts)


def _dvc_target(task: str, names: list[str], data: bool, scores: dict[str, TaskScores]) -> str | None:
    if data:
        corpora = scores[task].baselines
        return next((f"baseline@{corpora[name]}" for name in scores[task].own_names(names) if name in corpora), None)
    run = scores[task].choose(names)
    if run is None:
        return None
    return f"score-{task}-continued@{run}" if scores[task].lines[run].init_from else f"score-{task}@{run}"


def _versions(
    table: Table, sheet: Sheet, declared: Declarations, scores: dict[str, TaskScores]
) -> Iterator[tuple[str, list[Cell]]]:
    """Yield the name of each setting that has all runs of the table, and the cells there."""
    is_reported = declared.is_paper_scale(sheet.scale, sheet.corpora)
    for setting, own in _settings_of(table, declared, scores):
        yield setting, table_cells(declared, table, own, sheet.corpora, is_reported)


def _settings_of(
    table: Table, declared: Declarations, scores: dict[str, TaskScores]
) -> Iterator[tuple[str, dict[str, TaskScores]]]:
    """Yield the name of each setting that has all runs of a table, and all scores there; that of its claims first."""
    trained = [row for row in table.rows if not row.data]
    runs = [row.names(column) for row in trained for column in table.columns] or [row.runs for row in trained if table.neighbours]
    for setting, view in views(declared.settings, scores[table.task], runs):
        yield setting, _with_view(scores, table.task, view)


def _title(setting: str, declared: Declarations) -> str:
    return declared.settings[setting].title if setting else ""


def curves_of_all_runs(scores: TaskScores, folder: Path) -> str:
    """Return the curves of all runs of a task (folder/<run>.csv) as one table with run and family, for `dvc plots`."""
    objectives, parts = {line.objective for line in scores.lines.values()}, []
    for name, line in scores.lines.items():
        path = folder / f"{name}.csv"
        if path.is_file() and scores.read(name):
            # The shortest objective that is a prefix: freeze_b belongs to the family freeze.
            family = min(other for other in objectives if f"{line.objective}_".startswith(f"{other}_"))
            rows = csv_files.read_csv(path)
            parts.append(rows.assign(run=name, family=family)[["run", *rows, "family"]])
    return pd.concat(parts).to_csv(index=False, lineterminator="\n") if parts else ""


def _overview(
    sheet: Sheet,
    declared: Declarations,
    cells: dict[str, list[Cell]],
    settings: dict[str, dict[str, str]],
    scores: dict[str, TaskScores],
) -> dict[str, Any]:
    """Return the variables of the template index.md."""
    about = declared.scales.get(sheet.scale)
    return {
        "scale": sheet.scale,
        "reproduced": list(declared.papers),
        "about": about,
        "own_text": about and any(about.corpora.get(task, name) != name for task, name in sheet.corpora.items()),
        "corpora": sheet.corpora,
        "texts": _texts(scores),
        "versions": {"Python": platform.python_version().rsplit(".", 1)[0], **{name: _version(name) for name in PACKAGES}},
        "reported": reported_counts(declared, cells),
        "tables": [_line(name, declared, inside) | {"settings": settings.get(name, {})} for name, inside in cells.items()],
        "figures": [
            figure
            for paper in dict.fromkeys(one.paper for one in declared.figures.values())
            if paper not in declared.papers
            for figure in paper_pages.figures_of(paper, declared)
        ],
        "missing": [f"{task}/{name}" for task, part in scores.items() for name in part.lines if not part.read(name)],
        "runs": {task: count for task, part in scores.items() if (count := len(list(part.names())))},
    }


def _texts(scores: dict[str, TaskScores]) -> dict[str, dict[str, int]]:
    """Return text of a task -> split -> number of tokens, for texts whose tokens were counted."""
    first = {task: next(iter(part.baselines), "") for task, part in scores.items()}
    data = {task: (part.read(first[task]) or {}).get("metrics", {}) for task, part in scores.items()}
    return {TASKS[task].text: metrics["tokens"] for task, metrics in data.items() if "tokens" in metrics}


def _line(name: str, declared: Declarations, cells: list[Cell]) -> dict[str, Any]:
    table = declared.tables[name]
    statuses = Counter(cell.status for cell in cells if cell.status)
    return {
        "id": name,
        "title": table.title,
        "paper": table.paper,
        "place": table.place,
        "rows": len({cell.row for cell in cells}),
        "run": len({cell.row for cell in cells if cell.measured}),
        "statuses": ", ".join(f"{count} {status}" for status, count in statuses.items()),
    }


def _version(package: str) -> str:
    try:
        return version(package).split("+")[0]
    except PackageNotFoundError:  # a report needs few of them
        return "absent"
