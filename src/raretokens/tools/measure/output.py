"""Measurements as one HTML page, Markdown, CSV and JSON."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from raretokens.evaluation.score_files import layout
from raretokens.files import whole, write_text
from raretokens.tools.measure.comparison import Difference, differences, flat
from raretokens.tools.measure.figures import TITLES, draw
from raretokens.tools.measure.measurement import Measured

SHOWN = 50  # candidates on the page and in Markdown; all are in the JSON
HEADLINES = (
    "isotropy.total", "isotropy.rare", "mean_cosine", "rare_freq_cosine", "effective_rank.total", "ppl.total", "ppl.rare",
    "uniq.total", "uniq.rare", "norm_by_frequency.pearson",
)  # fmt: skip


def write(measured: Sequence[Measured], folder: Path, is_compared: bool) -> None:
    """index.html (alone, with everything in it), measure.md, measure.csv, measure.json, and an SVG a figure."""
    pictures = draw(measured)
    for name, drawn in pictures.items():
        with whole(folder / f"{name}.svg") as part:
            part.write_bytes(drawn)
    found = compared(measured) if is_compared else []
    write_text(
        folder / "measure.json", json.dumps([_tree(one) for one in measured], indent=1, ensure_ascii=False) + "\n"
    )
    write_text(folder / "measure.csv", _csv(measured))
    images = {
        name: "data:image/svg+xml;base64," + base64.b64encode(data).decode("ascii") for name, data in pictures.items()
    }
    given = {
        "measured": measured,
        "rows": rows(measured),
        "headlines": [row for path in HEADLINES for row in rows(measured) if row["path"] == path],
        "signatures": _signatures(measured),
        "differences": found,
        "titles": TITLES,
        "shown": SHOWN,
    }
    write_text(folder / "measure.md", _template("measure.md", False).render(given, images=list(pictures)))
    write_text(folder / "index.html", _template("measure.html", True).render(given, images=images))


def compared(measured: Sequence[Measured]) -> list[tuple[str, str, list[Difference]]]:
    """Each other model with the first; tables of the same kind, and what is tied with what is untied."""
    first = [one for one in measured if one.model == measured[0].model]
    pairs = [(_match(one, first), one) for one in measured if one.model != measured[0].model]
    return [(before.title, after.title, differences(before, after)) for before, after in pairs]


def _match(one: Measured, first: Sequence[Measured]) -> Measured:
    return next((other for other in first if other.table == one.table), first[-1])


def rows(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """A line a metric: its path and the number of each table, as text."""
    found: dict[str, list[str]] = {}
    for place, one in enumerate(measured):
        for path, number, _ in flat(one.metrics):
            found.setdefault(path, [""] * len(measured))[place] = shown(number)
    return [{"path": path, "numbers": numbers} for path, numbers in found.items()]


def shown(number: float | None) -> str:
    return "" if number is None else f"{number:,}" if isinstance(number, int) else f"{number:.4g}"


def _signatures(measured: Sequence[Measured]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((path, how) for one in measured for path, (_, how) in one.metrics.items()))


def _tree(one: Measured) -> dict[str, Any]:
    facts = {"model": one.model, "table": one.table, "facts": one.facts}
    tree = layout(facts, one.metrics)
    return {key: tree[key] for key in ("model", "table", "facts", "metrics", "signatures")} | {
        "candidates": one.candidates
    }


def _csv(measured: Sequence[Measured]) -> str:
    """A row a number; a signature holds no comma and no quote, a name may."""
    lines = ["model,table,metric,value,signature\n"]
    for one in measured:
        name = '"' + one.model.replace('"', '""') + '"'
        lines += [f"{name},{one.table},{path},{number!r},{how}\n" for path, number, how in flat(one.metrics)]
    return "".join(lines)


def _template(name: str, is_page: bool) -> jinja2.Template:
    loaders = [jinja2.PackageLoader("raretokens.tools.measure"), jinja2.PackageLoader("raretokens.report")]
    jinja = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders), autoescape=is_page, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    jinja.globals["number"] = shown
    return jinja.get_template(name)
