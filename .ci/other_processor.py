"""Change the reports of the scale in the working folder as another processor would: every number within its tolerance.

python .ci/other_processor.py   # afterwards `make test` and `make diff` must pass, as after `make demo` on that processor
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from raretokens import csv_files
from reproduction import paths
from reproduction.papers.declarations import Tolerance
from reproduction.papers.load import load_declarations
from reproduction.pipeline.jobs import run_sheet
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.surroundings import root
from reproduction.report import build

SHARE = 0.1  # largest change of a metric, as a share of its tolerance
CURVE = 0.0001  # largest relative change of curves and clouds


def change_metrics(
    tree: dict[str, Any], share: float, drift_of: Callable[[str], Tolerance | None], prefix: str = ""
) -> None:
    """Change the metrics of a score file in place by a share of their tolerance. Metrics without a tolerance stay as they are."""
    for name, value in tree.items():
        if isinstance(value, dict):
            change_metrics(value, share, drift_of, f"{prefix}{name}.")
        elif (drift := drift_of(f"{prefix}{name}")) and isinstance(value, int | float):
            tree[name] = type(value)(changed(value, share, drift))


def changed(value: Any, share: float, drift: Tolerance) -> Any:
    """Return a number or a column of numbers, changed by a share of the relative tolerance, or of the absolute one without it.

    A number that is not negative stays so, such as the half width of an interval.
    """
    moved = value * (1 + share * drift.rel) if drift.rel else value + share * (drift.abs or 0.0)
    return np.where(np.asarray(value) < 0, moved, np.maximum(moved, 0.0))


def change_columns(file: Path, share: float, drift_of: Callable[[str], Tolerance | None]) -> None:
    """Change the columns of a CSV file that have numbers: replicates by their tolerance, curves by at most CURVE."""
    rows = csv_files.read_csv(file)
    for column in rows.columns.difference(["x", "update", "series", "group", "share", "rare_group_size"]):
        drift = drift_of(column) if file.name.endswith(".bootstrap.csv") else None
        numbers = changed(pd.to_numeric(rows[column]), share, drift or Tolerance(rel=CURVE / SHARE))
        rows[column] = [f"{value:.6g}" if value == value else "" for value in numbers]
    rows.to_csv(file, index=False, lineterminator="\n")


def main() -> None:
    random.seed(1)
    declared, sheet = load_declarations(root() / paths.PAPERS), run_sheet(load())
    for task, runs in sheet.runs.items():

        def drift_of(metric: str, task: str = task) -> Tolerance | None:
            known = declared.known_metric(metric)
            return known and known.drift_of(task)

        for run in runs:
            share = random.uniform(-SHARE, SHARE)
            for file in (*(paths.SCORES / task).glob(f"{run}.*"), paths.CURVES / task / f"{run}.csv"):
                if file.suffix == ".json":
                    score = json.loads(file.read_text())
                    change_metrics(score["metrics"], share, drift_of)
                    file.write_text(json.dumps(score, indent=1) + "\n")
                elif file.is_file():
                    change_columns(file, share, drift_of)
    print(build.write(sheet, declared, paths.REPORTS))


if __name__ == "__main__":
    main()
