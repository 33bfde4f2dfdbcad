"""One legend below all panels: each group, curve and missing run once."""

from collections.abc import Iterator

from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from raretokens.reporting.figures.panel_points import PanelPoints
from raretokens.reporting.figures.styles import EFFECT, GROUPS, Styles, by_group, groups

WIDEST = 5  # entries in a row
BLANK = Line2D([], [], linestyle="none")


def add_legend(panels: list[PanelPoints], canvas: Canvas, styles: Styles) -> None:
    entries: dict[str, Line2D] = {}
    for panel in panels:
        for label, line in _entries(panel, styles) if not panel.rows.empty else ():
            entries.setdefault(label, line)
    if entries:
        canvas.legend(
            list(entries.values()),
            list(entries),
            loc="outside lower center",
            ncols=min(WIDEST, len(entries)),
            handlelength=2.2,
        )


def _entries(panel: PanelPoints, styles: Styles) -> Iterator[tuple[str, Line2D]]:
    if panel.panel.kind == "scatter":
        yield from _clouds(panel)
    if panel.panel.kind == "line":
        yield from _curves(panel, styles)
    if panel.panel.kind == "effect":
        shown = set(panel.rows.group)
        yield from ((name, Line2D([], [], **style)) for name, (group, style) in EFFECT.items() if group in shown)
        return  # an empty panel says itself what is missing
    yield from ((f"{run}: not run", BLANK) for run in panel.absent)


def _clouds(panel: PanelPoints) -> Iterator[tuple[str, Line2D]]:
    for group in groups(panel):
        name, colour, marker, _ = GROUPS[group]
        yield name, Line2D([], [], color=colour, marker=marker, markersize=5, linestyle="none")


def _curves(panel: PanelPoints, styles: Styles) -> Iterator[tuple[str, Line2D]]:
    """A single curve needs no entry."""
    curves = panel.rows[["run", "group"]].drop_duplicates()
    for run, group in curves.itertuples(index=False) if len(curves) > 1 else ():
        yield GROUPS[group][0] if by_group(panel) else run, Line2D([], [], **styles.curve(panel, run, group))
