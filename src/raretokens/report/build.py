"""Write all reports of a scale, from its score files and the declarations."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from raretokens.errors import UserError
from raretokens.evidence import methods
from raretokens.evidence.decomposition import Decomposition, decompositions, implied
from raretokens.evidence.reproducibility import powers
from raretokens.evidence.run_sheet import Sheet
from raretokens.evidence.scores import AllScores, Scores
from raretokens.evidence.verdict import Verdict, conclusions, conclusions_of, judge_all
from raretokens.files import write_text
from raretokens.papers.declarations import Declarations
from raretokens.papers.table import Table
from raretokens.report import claims, decomposition, forest, method_tables, paper_pages, reproducibility
from raretokens.report.cells import Cell
from raretokens.report.effect_text import change_text, finding_text
from raretokens.report.figure_points import figure_points
from raretokens.report.figures import write_figure
from raretokens.report.summary import environment, summary
from raretokens.report.tables import table_cells, write_table


def write(sheet: Sheet, declared: Declarations, reports: Path) -> str:
    """Write tables, figures, claims, index and headline numbers. Return the verdict counts in words."""
    scores = AllScores(sheet, reports / "runs")
    for folder in ("tables", "latex", "figures", "plots", "papers", "charts"):
        shutil.rmtree(reports / folder, ignore_errors=True)
        (reports / folder).mkdir(parents=True)
    cells = {name: _cells(table, sheet, declared, scores) for name, table in declared.tables.items()}
    for name, table in declared.tables.items():
        write_table(name, table, cells[name], reports)
    for name, figure in declared.figures.items():
        write_figure(figure_points(figure, scores, declared), reports / "figures", name)
    for task, part in scores.items():
        write_text(reports / f"plots/{task}.csv", curves_of_all_runs(part, reports / "curves" / task))
    verdicts = judge_all(declared, scores)
    write_text(reports / "claims.csv", claims.to_csv(verdicts))
    write_text(reports / "verdicts.csv", claims.verdict_counts(verdicts, declared))
    write_text(reports / "other-verdicts.csv", claims.other_counts(verdicts, declared))
    write_text(reports / "main.csv", claims.main_claims(verdicts))
    compared = methods.changes(declared, scores)
    write_text(reports / "methods.csv", method_tables.to_csv(compared))
    write_text(reports / "methods.md", method_tables.to_markdown(compared, declared))
    method_tables.write_charts(compared, reports / "charts")
    split = decompositions(scores)
    _write_decomposition(split, scores, declared, sheet.scale, reports)
    _write_papers(verdicts, declared, sheet.scale, reports)
    _write_reproducibility(cells, verdicts, scores, declared, sheet.scale, reports)
    counts = claims.in_words(verdicts, declared)
    write_text(reports / "findings.md", _findings(verdicts, compared, split))
    overview = summary(sheet, declared, cells, scores, counts)
    write_text(reports / "index.md", environment("raretokens.report").get_template("index.md").render(overview))
    write_text(reports / "headline.json", json.dumps(claims.headline(verdicts), indent=1) + "\n")
    return counts


def _write_decomposition(
    found: list[Decomposition], scores: AllScores, declared: Declarations, scale: str, reports: Path
) -> None:
    """Write what lowers rare-token perplexity, as CSV, a page and a chart."""
    write_text(reports / "decomposition.csv", decomposition.to_csv(found))
    write_text(reports / "decomposition.md", decomposition.to_markdown(found, implied(declared), scale))
    decomposition.write_chart(found, scores, reports / "charts/logit-bias.svg")


def _write_reproducibility(
    cells: dict[str, list[Cell]],
    verdicts: list[Verdict],
    scores: AllScores,
    declared: Declarations,
    scale: str,
    reports: Path,
) -> None:
    """Write the measures of QRA++ and the power of claims, as CSV and a page."""
    found, counted = reproducibility.scores_of(cells, declared, scores), conclusions(verdicts, declared)
    planned = powers(counted, scores, declared)
    write_text(reports / "reproducibility.csv", reproducibility.to_csv(found))
    write_text(reports / "power.csv", reproducibility.power_csv(planned))
    page = reproducibility.to_markdown(found, counted, planned, declared, scale)
    write_text(reports / "reproducibility.md", page)


def _write_papers(verdicts: list[Verdict], declared: Declarations, scale: str, reports: Path) -> None:
    """Write the forest plot of the main claims, and the page and the forest plot of each paper."""
    main = forest.fraction_rows(one for one in verdicts if one.claim.main)
    forest.write_forest(main, reports / "forest.svg", f"Main conclusions of the papers at the {scale} scale")
    for paper in declared.papers:
        name = paper.lower()
        rows = forest.fraction_rows(conclusions_of(paper, verdicts, declared))
        forest.write_forest(rows, reports / f"papers/{name}-forest.svg", f"Conclusions of {paper} at the {scale} scale")
        page = paper_pages.paper_page(paper, verdicts, declared, scale)
        write_text(reports / f"papers/{name}.md", page)
    write_text(reports / "papers/later.md", paper_pages.later_page(verdicts, declared, scale))


def one_table(name: str, sheet: Sheet, declared: Declarations, reports: Path) -> str:
    """Write the files of one table. Return its Markdown."""
    table = declared.table(name)
    cells = _cells(table, sheet, declared, AllScores(sheet, reports / "runs"))
    return write_table(name, table, cells, reports)


def needed(name: str, sheet: Sheet, declared: Declarations, reports: Path) -> list[str]:
    """Return the DVC targets of a table.

    Raises:
        UserError: if there are no targets. DVC would interpret an empty list as all targets.
    """
    targets = dvc_targets(declared.table(name), AllScores(sheet, reports / "runs"))
    if not targets:
        raise UserError(f"{name}: no run of this table is on the run sheet")
    return targets


def _cells(table: Table, sheet: Sheet, declared: Declarations, scores: dict[str, Scores]) -> list[Cell]:
    return table_cells(declared, table, scores, sheet.corpora, declared.is_paper_scale(sheet.scale, sheet.corpora))


def _findings(verdicts: list[Verdict], compared: list[methods.Change], split: list[Decomposition]) -> str:
    """Return the findings that README includes, with the numbers of the main claims."""
    main = {one.claim.main: finding_text(one) for one in verdicts if one.claim.main}
    bounds = {change.run: change_text("ratio", change.logit_bias) for change in compared if change.logit_bias}
    parts = {one.run: decomposition.in_words(one) for one in split}
    return environment("raretokens.report").get_template("findings.md").render(
        of=main.__getitem__, bias=lambda run: bounds.get(run, "an unknown amount"), split=lambda run: parts.get(run, "")
    )


def dvc_targets(table: Table, scores: dict[str, Scores]) -> list[str]:
    """Return `score-lm@mle`, ... for the runs on the run sheet, then `baseline@lm`, ... for rows that need no model."""
    needed = dict.fromkeys(_dvc_target(task, names, data, scores) for task, names, data in _wanted(table))
    return sorted(filter(None, needed), key=lambda target: target.startswith("baseline@"))


def _wanted(table: Table) -> Iterator[tuple[str, list[str], bool]]:
    """Yield a task, names of runs in the order in which they are tried, and whether the runs need no model."""
    for row in table.rows:
        yield from ((table.task, row.names(column), row.data) for column in table.columns)
    for row in table.rows if table.neighbours else ():
        yield table.task, row.runs, False
    for subject in table.subjects:
        yield from ((subject.task or table.task, fact.names(subject), subject.data) for fact in table.facts)


def _dvc_target(task: str, names: list[str], data: bool, scores: dict[str, Scores]) -> str | None:
    if data:
        corpora = scores[task].baselines
        return next((f"baseline@{corpora[name]}" for name in names if name in corpora), None)
    run = scores[task].choose(names)
    if run is None:
        return None
    return f"score-{task}-continued@{run}" if scores[task].lines[run].init_from else f"score-{task}@{run}"


def curves_of_all_runs(scores: Scores, folder: Path) -> str:
    """Return the curves of all runs of a task (folder/<run>.csv) as one table with run and family, for `dvc plots`."""
    lines: list[str] = []
    for name, line in scores.lines.items():
        path = folder / f"{name}.csv"
        if path.is_file() and scores.read(name):
            header, *rows = path.read_text(encoding="utf-8").splitlines()
            family = _family(line.objective, {other.objective for other in scores.lines.values()})
            lines += [*([] if lines else [f"run,{header},family"]), *(f"{name},{row},{family}" for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def _family(objective: str, objectives: set[str]) -> str:
    """Return the shortest objective that is a prefix of this objective: freeze_b belongs to the family freeze."""
    return min(name for name in objectives if f"{objective}_".startswith(f"{name}_"))
