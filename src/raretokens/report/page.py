"""All reports as one page for a browser, which needs no network and no other file."""

import base64
import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

from PIL import Image

from raretokens import csv_files
from raretokens.evidence.scores import Scores
from raretokens.evidence.verdict import Verdict
from raretokens.papers.declarations import Declarations
from raretokens.papers.task_names import HEADLINES
from raretokens.report import method_tables, page_claims, page_runs
from raretokens.report.cells import Cell
from raretokens.report.claims import MEANINGS
from raretokens.report.summary import environment
from raretokens.report.tables import ADDED, WAYS, Grid, remarks

GLOSSARY = Path(__file__).with_name("glossary.csv")
MARKS = {
    "match": "✓",
    "differs": "≠",
    "other scale": "·",
    "not reported": "○",
    "quoted": "†",
    "not run": "—",
}  # a shape, for who sees no colour


def page(
    summary: dict[str, Any],
    declared: Declarations,
    cells: dict[str, list[Cell]],
    verdicts: list[Verdict],
    scores: dict[str, Scores],
    compared: dict[str, method_tables.Table],
    reports: Path,
) -> str:
    """The page; summary is what index.md shows. Figures are taken from reports/figures, so they are written before.

    Times of training come from data/scratch and trained.csv beside the reports, where there are any: no outputs of the pipeline.
    """
    tables = [table_section(name, declared, inside) for name, inside in cells.items()]
    runs = page_runs.run_sections(declared, scores, reports.parent)
    explained = {task: _explained(runs, task) for task in scores}
    for run in runs:
        for score in run["scores"]:
            score["is_own"] = score["signature"] != explained[run["task"]][score["path"]]["signature"]
    jinja = environment("raretokens.report", autoescape=True, lstrip_blocks=True)
    terms = dict(csv_files.read_csv(GLOSSARY).itertuples(index=False, name=None))  # term -> meaning
    jinja.filters["hover"] = lambda text: hover(text, terms)
    return jinja.get_template("page.html").render(
        **summary,
        glossary=terms,
        marks=MARKS,
        ways=WAYS,
        way_counts=Counter(cell.direction for inside in cells.values() for cell in inside if cell.direction),
        verdict_names=MEANINGS,
        verdict_counts=Counter(verdict.outcome for verdict in verdicts),
        papers_counts=Counter(verdict.outcome for verdict in verdicts if not verdict.claim.is_ours),
        cell_counts=Counter(cell.status for inside in cells.values() for cell in inside if cell.status),
        papers=list(dict.fromkeys(table["paper"] for table in tables)),
        families=metric_families(tables),
        page_tables=tables,
        page_figures=[figure_section(figure, reports / "figures") for figure in summary["figures"]],
        claims=page_claims.claim_sections(declared, verdicts, scores),
        methods=compared,
        clearest=page_claims.clearest(verdicts),
        page_runs=runs,
        explained=explained,
        groups=page_runs.GROUPS,
        glance={task: _headline_columns(names, summary["headline"]) for task, names in summary["runs"].items()},
    )


def _explained(runs: list[dict[str, Any]], task: str) -> dict[str, dict[str, Any]]:
    """Metric -> what it is."""
    return {line["path"]: line for line in page_runs.explained([run for run in runs if run["task"] == task])}


def _headline_columns(names: list[str], headline: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Headline numbers that any of the runs has."""
    known = {short for name in names for short in headline.get(name, {})}
    return {short: number for short, number in HEADLINES.items() if short in known}


def table_section(name: str, declared: Declarations, cells: list[Cell]) -> dict[str, Any]:
    table = declared.tables[name]
    grid = Grid.of(table, cells)
    paths = {cell.column: cell.metric for cell in reversed(cells)}
    return {
        "id": name,
        "title": table.title,
        "paper": table.paper,
        "place": table.place,
        "task": table.task,
        "kind": "neighbours" if table.neighbours else "facts" if table.facts else "runs",
        "of_text": table.is_of_text,
        "token": table.token,
        "columns": [
            {"title": title, "path": paths[title], "metric": declared.known_metric(paths[title])} for title in grid.columns
        ],
        "rows": grid.rows,
        "run": sum(any(cell and cell.measured for cell in row) for row in grid.rows.values()),
        "statuses": Counter(cell.status for cell in cells if cell.status),
        "remarks": remarks(table, cells) | ({ADDED: grid.added} if grid.added else {}),
    }


def metric_families(sections: list[dict[str, Any]]) -> dict[str, str]:
    """First part of a metric path -> the title that most of its columns have."""
    titles: dict[str, Counter[str]] = {}
    for column in (column for table_section in sections for column in table_section["columns"]):
        if column["metric"]:
            titles.setdefault(column["path"].split(".")[0], Counter())[column["metric"].title] += 1
    return {family: counts.most_common(1)[0][0] for family, counts in titles.items()}


COLOURS = 64
SIZE = re.compile(rb'width="([\d.]+)pt" height="([\d.]+)pt"')  # of an SVG


def figure_section(figure: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The picture in an image, so that the names inside two drawings cannot clash."""
    picture, kind = (folder / figure["picture"]).read_bytes(), "svg+xml"
    if size := SIZE.search(picture):
        width, height = (round(float(points) * 110 / 72) for points in size.groups())
    else:
        with Image.open(io.BytesIO(picture)) as pixels:
            (width, height), picture, kind = pixels.size, _webp(pixels), "webp"
    return {
        **figure,
        "width": width,
        "height": height,
        "drawn": len((folder / f"{figure['id']}.csv").read_bytes().splitlines()) > 1,
        "image": f"data:image/{kind};base64,{base64.b64encode(picture).decode('ascii')}",
    }


def _webp(pixels: Image.Image) -> bytes:
    """The pixels in a third of the bytes of PNG: of the many shades of overlapping points the nearest of COLOURS."""
    packed = io.BytesIO()
    few = pixels.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.convert("RGB").save(packed, "WEBP", lossless=True, quality=80)
    return packed.getvalue()


def hover(text: str, terms: dict[str, str]) -> str:
    """The meaning of each term in a text, one a line; of terms that begin alike the longest one."""
    found = [term for term in terms if re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE)]
    longest = [term for term in found if not any(term != other and term in other for other in found)]
    return "\n".join(f"{term}: {terms[term]}" for term in longest)
