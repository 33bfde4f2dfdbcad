"""Colours and dashes: the groups always look alike, and a run in all panels of a figure."""

from typing import Any

from raretokens.reporting.figures.look import GROUPS
from raretokens.reporting.figures.panel_points import PanelPoints

CURVES: list[tuple[str, Any]] = [
    ("#000000", "solid"),
    ("#CC79A7", "dashed"),
    ("#56B4E9", "dashdot"),
    ("#E69F00", (0, (1, 1))),
    ("#666666", (0, (5, 1, 1, 1, 1, 1))),
]


EFFECT: dict[str, tuple[str, dict[str, Any]]] = {  # legend -> group of the points, style
    "where the claim turns": ("turn", {"color": "0.75", "linestyle": "solid", "linewidth": 0.8}),
    "in print": ("print", {"color": "#D55E00", "linestyle": (0, (4, 2)), "linewidth": 1.1}),
    "one seed": ("seed", {"color": "0.55", "linestyle": "solid", "linewidth": 0.7}),
    "mean over seeds": ("", {"color": "#000000", "linestyle": "solid", "linewidth": 1.4}),
}


class Styles:
    """Colour and dashes of the curves of a figure."""

    def __init__(self, panels: list[PanelPoints]) -> None:
        legends = dict.fromkeys(run for part in panels if part.panel.kind == "line" for run in part.panel.runs)
        self._runs = dict(zip(legends, CURVES * len(legends), strict=False))

    def curve(self, panel: PanelPoints, run: str, group: str) -> dict[str, Any]:
        colour, dashes = GROUPS[group][1::2] if by_group(panel) else self._runs[run]
        return {"color": colour, "linestyle": dashes, "linewidth": 1.3}

    def mark(self, panel: PanelPoints, run: str) -> str:
        """Colour of the line where a run's update stands."""
        return "0.5" if by_group(panel) else self._runs[run][0]


def by_group(panel: PanelPoints) -> bool:
    """Whether colours stand for groups: curves of one run. Curves of several runs are of one group."""
    return len(panel.panel.runs) == 1 and panel.rows.group.nunique() > 1


def groups(panel: PanelPoints) -> list[str]:
    return [group for group in GROUPS if group in set(panel.rows.group)]
