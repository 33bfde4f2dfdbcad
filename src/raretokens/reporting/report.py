"""All reports of a scale, from its score files and the declarations."""

import json
import platform
import shutil
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jinja2

from raretokens.config import Parameters
from raretokens.errors import UserError, nearest
from raretokens.reporting.cells import needs
from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.cells.run_cells import of_table
from raretokens.reporting.claims import judging as claims
from raretokens.reporting.declarations.schema import Declarations, Table
from raretokens.reporting.figures import panel_points as points
from raretokens.reporting.figures import write as figures
from raretokens.reporting.page import browser_page as html
from raretokens.reporting.scored import Scores
from raretokens.reporting.tables import latex, render

PACKAGES = ("torch", "sentencepiece", "ctranslate2", "sacrebleu", "sil-thot", "scipy", "numpy")
HEADLINE = {
    "lm": {
        "ppl": "ppl.total",
        "ppl_rare": "ppl.rare",
        "iw": "isotropy.total",
        "iw_rare": "isotropy.rare",
        "men": "spearman.men",
    },
    "nmt": {"bleu": "bleu.tokenised", "iw": "isotropy.total", "align": "alignsim.total"},
}


def write(parameters: Parameters, declared: Declarations, printed: Path, reports: Path) -> str:
    """Write tables, figures, claims, index (Markdown and HTML) and headline numbers; returns the verdict counts in words."""
    scores = _scores(parameters, reports)
    for name in ("tables", "figures", "plots"):
        shutil.rmtree(reports / name, ignore_errors=True)
        (reports / name).mkdir(parents=True)
    rendered = {}
    for name, table in declared.tables.items():
        rendered[name] = of_table(declared, table, scores, printed, _corpora(parameters))
        _write_table(name, table, rendered[name], reports / "tables")
    for name, figure in declared.figures.items():
        figures.write(points.of_figure(figure, scores), reports / "figures", name)
    for task, part in scores.items():
        _text(reports / "plots" / f"{task}.csv", points.of_all_runs(part, reports / "curves" / task))
    verdicts = [
        claims.judge(name, claim, scores[claim.task], printed, declared.metric(claim.left.metric).drift)
        for name, claim in declared.claims.items()
    ]
    _text(reports / "claims.csv", claims.to_csv(verdicts))
    _text(reports / "claims.md", claims.to_markdown(verdicts, declared))
    counted = ", ".join(f"{count} {verdict}" for verdict, count in Counter(v.verdict for v in verdicts).items())
    summary = _summary(parameters, declared, rendered, scores, counted)
    _text(reports / "index.md", _index(summary))
    _text(reports / "index.html", html.page(summary, declared, rendered, verdicts, scores, reports))
    _text(reports / "headline.json", json.dumps(_headline(scores), indent=1) + "\n")
    return counted


def one_table(name: str, parameters: Parameters, declared: Declarations, printed: Path, reports: Path) -> str:
    """Write the files of one table; returns its Markdown."""
    table = _declared(name, declared)
    found = of_table(declared, table, _scores(parameters, reports), printed, _corpora(parameters))
    (reports / "tables").mkdir(parents=True, exist_ok=True)
    return _write_table(name, table, found, reports / "tables")


def needed(name: str, parameters: Parameters, declared: Declarations, reports: Path) -> list[str]:
    """DVC targets of a table."""
    return needs.targets(_declared(name, declared), _scores(parameters, reports))


def _declared(name: str, declared: Declarations) -> Table:
    if name not in declared.tables:
        raise UserError(f"no table {name!r}; {nearest(name, list(declared.tables))}")
    return declared.tables[name]


def _scores(parameters: Parameters, reports: Path) -> dict[str, Scores]:
    return {task: Scores.of(parameters, task, reports / "runs") for task in ("lm", "nmt")}


def _corpora(parameters: Parameters) -> dict[str, str]:
    return {"lm": parameters.lm.corpus, "nmt": parameters.nmt.corpus}


def _write_table(name: str, table: Table, found: list[Cell], folder: Path) -> str:
    """The table as CSV, LaTeX and Markdown, which is returned."""
    _text(folder / f"{name}.csv", render.to_csv(found))
    _text(folder / f"{name}.tex", latex.to_latex(table, found, name))
    markdown = render.to_markdown(table, found)
    _text(folder / f"{name}.md", markdown)
    return markdown


def _index(summary: dict[str, Any]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("raretokens.reporting"),
        autoescape=False,  # Markdown, not HTML
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("index.md").render(summary)


def _summary(
    parameters: Parameters,
    declared: Declarations,
    rendered: dict[str, list[Cell]],
    scores: dict[str, Scores],
    verdicts: str,
) -> dict[str, Any]:
    """What both index pages say."""
    human: Any = scores["lm"].read("human") or {}
    corpora = _corpora(parameters)
    about = declared.scales.get(parameters.scale)
    return {
        "scale": parameters.scale,
        "about": about if about and about.corpora == corpora else None,
        "corpora": corpora,
        "tokens": human.get("metrics", {}).get("tokens"),
        "versions": {"Python": platform.python_version().rsplit(".", 1)[0], **_versions()},
        "tables": [_line(name, declared.tables[name], found) for name, found in rendered.items()],
        "figures": [{"id": name, **figure.model_dump()} for name, figure in declared.figures.items()],
        "verdicts": verdicts,
        "missing": [f"{task}/{name}" for task, part in scores.items() for name in part.lines if not part.read(name)],
        "runs": {
            task: [name for name in (*part.lines, "human", "copy") if part.read(name)] for task, part in scores.items()
        },
        "headline": _headline(scores),
    }


def _line(name: str, table: Table, found: list[Cell]) -> dict[str, Any]:
    rows = list(dict.fromkeys(cell.row for cell in found))
    run = {cell.row for cell in found if cell.ours}
    statuses = Counter(cell.status for cell in found if cell.status)
    return {
        "id": name,
        "title": table.title,
        "paper": table.paper,
        "place": table.place,
        "rows": len(rows),
        "run": len(run),
        "statuses": ", ".join(f"{count} {status}" for status, count in statuses.items()),
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package).split("+")[0]
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def _headline(scores: dict[str, Scores]) -> dict[str, dict[str, float]]:
    """Few numbers with short names, a run each: what `dvc exp show` has room for."""
    found: dict[str, dict[str, float]] = {}
    for task, names in HEADLINE.items():
        for run in scores[task].lines:
            values = {short: scores[task].value(run, path) for short, path in names.items()}
            found[run] = {short: float(f"{value.values[0]:.4g}") for short, value in values.items() if value}
    return found


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
