"""The same limits for panels that are to be compared."""

from matplotlib.axes import Axes

from raretokens.reporting.figures.panel_points import PanelPoints


def share_limits(panels: list[PanelPoints], axes: list[Axes], columns: int) -> None:
    """Panels with the same word; an axis is named once in a row of them."""
    for word in dict.fromkeys(panel.panel.limits for panel in panels if panel.panel.limits):
        places = [i for i, panel in enumerate(panels) if panel.panel.limits == word]
        _widen([axes[i] for i in places if not panels[i].rows.empty])
        for i in places:
            _name_once(i, places, panels, axes, columns)


def _widen(axes: list[Axes]) -> None:
    lows, highs = ([axis.viewLim.get_points()[end] for axis in axes] for end in (0, 1))
    for axis in axes:
        axis.set(
            xlim=(min(x for x, _ in lows), max(x for x, _ in highs)),
            ylim=(min(y for _, y in lows), max(y for _, y in highs)),
        )


def _name_once(i: int, places: list[int], panels: list[PanelPoints], axes: list[Axes], columns: int) -> None:
    if i % columns and i - 1 in places and panels[i].y == panels[i - 1].y:
        axes[i].set_ylabel("")
    if i + columns in places:
        axes[i].set_xlabel("")
