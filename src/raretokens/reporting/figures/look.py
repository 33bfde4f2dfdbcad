"""How all figures look: letters, lines, and the groups, which are alike everywhere."""

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

# Okabe and Ito's colours, safe for colour-blind readers; markers and dashes tell them apart in grey
GROUPS = {
    "freq": ("frequent", "#0072B2", "o", "solid"),
    "med": ("medium", "#009E73", "s", "dashed"),
    "rare": ("rare", "#D55E00", "^", "dashdot"),
    "total": ("all", "#000000", "D", "dotted"),
}
