"""trained.csv of a scale: the md5 of each run's weights, and the hours, machine, memory and code of its training.

Weights are not committed, and training times are not an output of the pipeline. trained.csv is committed with dvc.lock, so a
checkout documents the training cost of the runs in its reports.
"""

import json
from pathlib import Path

import pandas as pd

from raretokens import csv_files
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.yaml_files import read_yaml
from reproduction import paths

FILE = Path("trained.csv")
FACTS = ["hours", "machine", "peak_gb", "revision", "adopted"]  # revision: code that trained; adopted: equivalent code
COLUMNS = ["task", "run", *FACTS, "weights"]


def table(lock: Path = paths.LOCK) -> pd.DataFrame:
    """Return one row of strings for each trained run in the dvc.lock of the working folder, or in `lock`.

    Rows of trained.csv with the same weights (md5 of the run's files) are kept. Other rows are filled from the timing record of
    this machine.
    """
    rows = {(row["task"], row["run"], row["weights"]): row for row in _known(FILE).to_dict("records")}
    trained = [_line(*run, rows) for run in sorted(weights(lock).items())]
    return pd.DataFrame(trained, columns=COLUMNS)


def adopt(runs: set[tuple[str, str]], revision: str, lock: Path) -> None:
    """Record in trained.csv that the code of a revision trains these runs, (task, name), to identical bits."""
    rows = table(lock).to_dict("records")
    for row in rows:
        if (row["task"], row["run"]) in runs:
            row["adopted"] = revision
    write_text(FILE, csv_files.to_csv(rows, COLUMNS))


def weights(lock: Path = paths.LOCK) -> dict[tuple[str, str], str]:
    """Return (task, run) -> md5 of the run's files, for all runs in dvc.lock."""
    stages = read_yaml(lock)["stages"].values() if lock.is_file() else []
    outs = [out for stage in stages for out in stage.get("outs", []) if Path(out["path"]).is_relative_to(paths.RUNS)]
    return {(Path(out["path"]).parent.name, Path(out["path"]).name): out["md5"].removesuffix(".dir") for out in outs}


def _known(file: Path) -> pd.DataFrame:
    """Read a trained.csv; no rows if there is none. Raises UserError if it is not such a table, as after a merge conflict."""
    try:
        known = csv_files.read_csv(file) if file.is_file() else pd.DataFrame(columns=COLUMNS)
        is_whole = "hours" in known and (known[["task", "run", "weights"]] != "").all(axis=None)
    except (ValueError, KeyError):
        is_whole = False
    if not is_whole:
        raise UserError(f"{file}: not a table with task, run and weights in each line; git restore makes it so")
    return known


def _line(run: tuple[str, str], md5: str, known: dict[tuple[str, str, str], dict[str, str]]) -> dict[str, str]:
    timing, facts = paths.TIMING / f"{'-'.join(run)}.json", known.get((*run, md5), {})
    if not facts.get("hours") and timing.is_file() and paths.trained(*run).is_dir():
        took = json.loads(timing.read_text(encoding="utf-8"))
        facts = {
            "hours": f"{took['seconds'] / 3600:.3f}",
            "machine": took["machine"],
            "peak_gb": f"{took['peak_memory_bytes'] / 1e9:.1f}",
            "revision": took["revision"] or "",
        }
    return {**dict.fromkeys(FACTS, ""), **facts, "task": run[0], "run": run[1], "weights": md5}
