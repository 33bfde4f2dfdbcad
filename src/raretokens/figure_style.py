"""Style of figures: fonts, and colours, markers and dashes of frequency groups and curves."""

from typing import Any

STYLE = {
    "svg.hashsalt": "raretokens",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
}

# Okabe and Ito's colours are safe for colour-blind readers. Markers and dashes distinguish the curves in greyscale.
GROUPS = {
    "freq": ("frequent", "#0072B2", "o", "solid"),
    "med": ("medium", "#009E73", "s", "dashed"),
    "rare": ("rare", "#D55E00", "^", "dashdot"),
    "total": ("all", "#000000", "D", "dotted"),
}
CURVES: list[tuple[str, Any]] = [
    ("#000000", "solid"),
    ("#CC79A7", "dashed"),
    ("#56B4E9", "dashdot"),
    ("#E69F00", (0, (1, 1))),
    ("#666666", (0, (5, 1, 1, 1, 1, 1))),
    ("#0072B2", "solid"),
    ("#D55E00", "dashed"),
    ("#009E73", "dashdot"),
    ("#882255", (0, (1, 1))),
    ("#999933", (0, (5, 1, 1, 1, 1, 1))),
]
