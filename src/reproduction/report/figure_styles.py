"""Styles of all figures: fonts, colours, dashes and legends."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from raretokens.figure_style import CURVES, GROUPS

if TYPE_CHECKING:  # `measure` needs the styles, but works without pandas
    from reproduction.report.figure_points import PanelPoints

EFFECT: dict[str, tuple[str, dict[str, Any]]] = {  # legend -> group of the points, style
    "threshold": ("threshold", {"color": "0.75", "linestyle": "solid", "linewidth": 0.8}),
    "reported": ("reported", {"color": "#D55E00", "linestyle": (0, (4, 2)), "linewidth": 1.1}),
    "one seed": ("seed", {"color": "0.55", "linestyle": "solid", "linewidth": 0.7}),
    "mean over seeds": ("", {"color": "#000000", "linestyle": "solid", "linewidth": 1.4}),
}


class Styles:
    """Colours and dashes of the curves of a figure."""

    def __init__(self, panels: list["PanelPoints"]) -> None:
        legends = dict.fromkeys(run for part in panels if part.panel.kind == "line" for run in part.panel.runs)
        self._runs = dict(zip(legends, CURVES * len(legends), strict=False))

    def curve(self, panel: "PanelPoints", run: str, group: str) -> dict[str, Any]:
        colour, dashes = GROUPS[group][1::2] if by_group(panel) else self._runs[run]
        return {"color": colour, "linestyle": dashes, "linewidth": 1.3}

    def mark(self, panel: "PanelPoints", run: str) -> str:
        """Return the colour of the vertical line at a run's training step."""
        return "0.5" if by_group(panel) else self._runs[run][0]


def by_group(panel: "PanelPoints") -> bool:
    """Whether colours stand for groups, as in panels of one run. In panels of several runs, colours stand for runs."""
    return len(panel.panel.runs) == 1 and panel.rows.group.nunique() > 1


def groups(panel: "PanelPoints") -> list[str]:
    return [group for group in GROUPS if group in set(panel.rows.group)]


WIDEST = 5  # entries per row of the legend
BLANK = Line2D([], [], linestyle="none")


def add_legend(panels: list["PanelPoints"], canvas: Canvas, styles: Styles) -> None:
    entries: dict[str, Line2D] = {}
    for panel in panels:
        for label, line in _entries(panel, styles) if not panel.rows.empty else ():
            entries.setdefault(label, line)
    if entries:
        columns = min(WIDEST, len(entries))
        canvas.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=columns, handlelength=2.2
        )


def _entries(panel: "PanelPoints", styles: Styles) -> Iterator[tuple[str, Line2D]]:
    curves = panel.rows[["run", "group"]].drop_duplicates()
    if panel.panel.kind == "effect":
        shown = set(panel.rows.group)
        yield from ((name, Line2D([], [], **style)) for name, (group, style) in EFFECT.items() if group in shown)
        return  # an empty panel shows the reason itself
    if panel.panel.kind == "scatter":
        for name, colour, marker, _ in map(GROUPS.__getitem__, groups(panel)):
            yield name, Line2D([], [], color=colour, marker=marker, markersize=5, linestyle="none")
    elif panel.panel.kind == "line" and len(curves) > 1:  # a single curve needs no entry
        for run, group in curves.itertuples(index=False):
            yield GROUPS[group][0] if by_group(panel) else run, Line2D([], [], **styles.curve(panel, run, group))
    yield from ((f"{run}: not run", BLANK) for run in panel.absent)
