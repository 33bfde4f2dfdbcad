"""Tables of the reference pages, generated from the code and the declarations."""

from pathlib import Path

from raretokens.objectives.listing import objectives
from raretokens.papers.load import load_declarations
from raretokens.report.effect_text import table
from raretokens.report.tables import escaped

BETTER = {"up": "higher", "down": "lower"}


def objectives_text() -> str:
    """Return all objectives with their options, as Markdown."""
    parts = []
    for name, choice in objectives().items():
        parts += [f"## `{name}`", "", choice.summary, ""]
        rows = [(f"`{key}`", f"`{choice.defaults[key]}`", escaped(allowed)) for key, allowed in choice.allowed.items()]
        if rows:
            parts += [*table(("option", "default", "allowed"), rows), ""]
    return "\n".join(parts)


def metrics_text(folder: Path) -> str:
    """Return all declared metrics as a Markdown table. `folder`: data/paper."""
    metrics = load_declarations(folder).metrics.items()
    rows = [
        (f"`{path}`", escaped(metric.title), escaped(metric.unit), BETTER.get(metric.direction or "", ""))
        for path, metric in metrics
    ]
    return "\n".join([*table(("path", "title", "unit", "better"), rows), ""])
