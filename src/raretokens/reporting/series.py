"""Points of runs: reports/runs/<task>/<run>.csv, and reports/curves/<task>/<run>.csv for DVC's plots."""

from pathlib import Path

import pandas as pd

from raretokens.reporting import frames
from raretokens.reporting.scored import Scores


def read_points(path: Path) -> pd.DataFrame:
    """series, group, x, y of each point, as text; none where there is no file."""
    return frames.read_csv(path) if path.is_file() else pd.DataFrame(columns=["series", "group", "x", "y"], dtype=str)


def curves_of_all_runs(scores: Scores, folder: Path) -> str:
    """The curves of all runs of a task (folder/<run>.csv) as one table with a column `run`: what `dvc plots` draws."""
    lines: list[str] = []
    for name in scores.lines:
        path = folder / f"{name}.csv"
        if path.is_file():
            header, *rows = path.read_text(encoding="utf-8").splitlines()
            lines += [*([] if lines else [f"run,{header}"]), *(f"{name},{row}" for row in rows)]
    return "".join(f"{line}\n" for line in lines)
