"""All reports as one page for a browser, which needs no network and no other file."""

import base64
import io
from collections import Counter
from pathlib import Path
from typing import Any

import jinja2
from PIL import Image

from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.claims.judging import VERDICTS, Verdict
from raretokens.reporting.declarations.schema import Declarations, Table
from raretokens.reporting.page import evidence as html_claims
from raretokens.reporting.page import run_sections as html_runs
from raretokens.reporting.scored import Scores
from raretokens.reporting.tables import render

LARGEST_SVG = 30_000  # bytes; a larger drawing stands on the page as pixels, so that the page stays below 2 MB
MARKS = {
    "match": "✓",
    "differs": "≠",
    "ours only": "○",
    "quoted": "†",
    "not run": "—",
}  # a shape, for who sees no colour


def page(
    summary: dict[str, Any],
    declared: Declarations,
    rendered: dict[str, list[Cell]],
    verdicts: list[Verdict],
    scores: dict[str, Scores],
    reports: Path,
) -> str:
    """The page; summary is what index.md shows. Figures are taken from reports/figures, so they are written before.

    Times of training come from data/scratch beside the reports, where it is there: they are no output of the pipeline.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("raretokens.reporting.page"),
        autoescape=jinja2.select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    runs = html_runs.sections(declared, scores, reports.parent / html_runs.TIMES)
    tables = [_table(name, declared.tables[name], found, declared) for name, found in rendered.items()]
    return environment.get_template("page.html").render(
        **summary,
        marks=MARKS,
        verdict_names=VERDICTS,
        verdict_counts=Counter(verdict.verdict for verdict in verdicts),
        cell_counts=Counter(cell.status for found in rendered.values() for cell in found if cell.status),
        papers=list(dict.fromkeys(table["paper"] for table in tables)),
        families=_families(tables),
        page_tables=tables,
        page_figures=[_figure(figure, reports / "figures") for figure in summary["figures"]],
        claims=html_claims.evidence(declared, verdicts, scores),
        clearest=html_claims.clearest(declared, verdicts),
        page_runs=runs,
        groups=html_runs.GROUPS,
        glance={
            task: {short for name in names for short in summary["headline"].get(name, {})}
            for task, names in summary["runs"].items()
        },
    )


def _table(name: str, table: Table, cells: list[Cell], declared: Declarations) -> dict[str, Any]:
    grid = render.Grid.of(table, cells)
    metrics: dict[str, str] = {}
    for cell in cells:
        metrics.setdefault(cell.column, cell.metric)
    return {
        "id": name,
        "title": table.title,
        "paper": table.paper,
        "place": table.place,
        "task": table.task,
        "kind": "neighbours" if table.neighbours else "facts" if table.facts else "runs",
        "columns": [
            {"title": title, "path": metrics[title], "metric": html_runs.metric_of(declared, metrics[title])}
            for title in grid.columns
        ],
        "rows": grid.rows,
        "run": sum(any(cell and cell.ours for cell in row) for row in grid.rows.values()),
        "statuses": Counter(cell.status for cell in cells if cell.status),
        "remarks": render.remarks(table, cells),
    }


def _families(tables: list[dict[str, Any]]) -> dict[str, str]:
    """First part of a metric path -> the title that most of its columns have."""
    titles: dict[str, Counter[str]] = {}
    for column in (column for table in tables for column in table["columns"]):
        if column["metric"]:
            titles.setdefault(column["path"].split(".")[0], Counter())[column["metric"].title] += 1
    return {family: found.most_common(1)[0][0] for family, found in titles.items()}


def _figure(figure: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The picture as a data address: in an image, so that the names inside two drawings cannot clash."""
    drawing = folder / f"{figure['id']}.svg"
    small = drawing.stat().st_size <= LARGEST_SVG
    with Image.open(folder / f"{figure['id']}.png") as pixels:
        width, height = pixels.size
        data = drawing.read_bytes() if small else _webp(pixels)
    return {
        **figure,
        "width": width,
        "height": height,
        "drawn": len((folder / f"{figure['id']}.csv").read_bytes().splitlines()) > 1,
        "image": f"data:image/{'svg+xml' if small else 'webp'};base64,{base64.b64encode(data).decode('ascii')}",
    }


def _webp(pixels: Image.Image) -> bytes:
    """The same pixels in half the bytes of PNG."""
    packed = io.BytesIO()
    pixels.convert("RGB").save(packed, "WEBP", lossless=True, quality=80)
    return packed.getvalue()
