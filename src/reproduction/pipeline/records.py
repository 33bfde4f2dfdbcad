"""Records that a scale commits beside dvc.lock: trained.csv and added.csv.

trained.csv has the md5 of each run's weights, and the hours, machine, memory and code of its training. Weights are not committed,
and training times are not an output of the pipeline. So a checkout documents the training cost of the runs in its reports.

added.csv has the metrics that new code adds to the files of a score stage while it keeps their former content. Adopted score
files lack these metrics until their stages run again.
"""

import csv
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import pandas as pd

from raretokens import csv_files
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.metrics.score_files import signature_of
from raretokens.yaml_files import read_yaml
from reproduction import paths

TRAINED = Path("trained.csv")
FACTS = ["hours", "machine", "peak_gb", "revision", "adopted"]  # revision: code that trained; adopted: equivalent code
TRAINED_COLUMNS = ["task", "run", *FACTS, "weights"]
ADDED = Path("added.csv")  # in the folder of a scale: kind of a score stage, and a metric that its files may lack


def trained_table(lock: Path = paths.LOCK) -> pd.DataFrame:
    """Return one row of strings for each trained run in the dvc.lock of the working folder, or in `lock`.

    Rows of trained.csv with the same weights (md5 of the run's files) are kept. Other rows are filled from the timing record of
    this machine.
    """
    rows = {(row["task"], row["run"], row["weights"]): row for row in _known_rows(TRAINED).to_dict("records")}
    trained = [_trained_row(*run, rows) for run in sorted(trained_weights(lock).items())]
    return pd.DataFrame(trained, columns=TRAINED_COLUMNS)


def record_adoption(runs: set[tuple[str, str]], revision: str, lock: Path) -> None:
    """Record in trained.csv that the code of a revision trains these runs, (task, name), to identical bits."""
    rows = trained_table(lock).to_dict("records")
    for row in rows:
        if (row["task"], row["run"]) in runs:
            row["adopted"] = revision
    write_text(TRAINED, csv_files.to_csv(rows, TRAINED_COLUMNS))


def trained_weights(lock: Path = paths.LOCK) -> dict[tuple[str, str], str]:
    """Return (task, run) -> md5 of the run's files, for all runs in dvc.lock."""
    stages = read_yaml(lock)["stages"].values() if lock.is_file() else []
    outs = [out for stage in stages for out in stage.get("outs", []) if Path(out["path"]).is_relative_to(paths.RUNS)]
    return {(Path(out["path"]).parent.name, Path(out["path"]).name): out["md5"].removesuffix(".dir") for out in outs}


def _known_rows(file: Path) -> pd.DataFrame:
    """Read a trained.csv; no rows if there is none. Raises UserError if it is not such a table, as after a merge conflict."""
    try:
        known = csv_files.read_csv(file) if file.is_file() else pd.DataFrame(columns=TRAINED_COLUMNS)
        is_whole = "hours" in known and (known[["task", "run", "weights"]] != "").all(axis=None)
    except (ValueError, KeyError):
        is_whole = False
    if not is_whole:
        raise UserError(f"{file}: not a table with task, run and weights in each line; git restore makes it so")
    return known


def _trained_row(run: tuple[str, str], md5: str, known: dict[tuple[str, str, str], dict[str, str]]) -> dict[str, str]:
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


# Metrics that new code adds to score files.


def added_metrics(name: str, old: bytes, new: bytes) -> set[str] | None:
    """Return the metrics that only the new file has, or None if the files differ in anything else.

    A JSON file may gain metrics and their signatures. A CSV file may gain columns, or rows of new series if its first column is
    `series`.
    """
    try:
        if PurePath(name).suffix == ".json":
            return _added_to_tree(_parsed(old), _parsed(new))
        return _added_to_table(old.decode(), new.decode())
    except (ValueError, KeyError, IndexError, TypeError):  # no score file, or no table
        return None


def without_covered(names: set[str]) -> list[str]:
    """Return the names in order, without `metric.group` where `metric` is among them."""
    return sorted(name for name in names if not any(name.startswith(f"{other}.") for other in names))


def _parsed(text: bytes) -> Any:
    """Parse JSON with floats as ("float", digits), so that their digits are compared and a string differs from a number."""
    return json.loads(text, parse_float=lambda digits: ("float", digits))


def _added_to_tree(old: dict, new: dict) -> set[str] | None:
    (before, signed_before), (after, signed_after) = (
        (dict(_leaves(tree["metrics"])).keys(), dict(tree["signatures"]).keys()) for tree in (old, new)
    )
    if _restricted(old, before, signed_before) != _restricted(new, before, signed_before):
        return None
    return (after - before) | (signed_after - signed_before)


def _restricted(tree: dict, paths: Collection[str], signed: Collection[str]) -> str:
    """Return a score file with these metrics and signatures alone, as text in which 1, 1.0 and true differ."""
    metrics, signatures = dict(_leaves(tree["metrics"])), dict(tree["signatures"])
    kept = {
        "metrics": {path: [value, signature_of(path, signatures)] for path, value in metrics.items() if path in paths},
        "signatures": {name: signature for name, signature in signatures.items() if name in signed},
    }
    return json.dumps({**tree, **kept}, sort_keys=True)


def _leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and value of each metric, also of those without a value."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _added_to_table(old: str, new: str) -> set[str] | None:
    before, after = (list(csv.reader(text.splitlines())) for text in (old, new))
    if before[0] == after[0] and before[0][0] == "series":
        added = {row[0] for row in after} - {row[0] for row in before}
        kept = [row for row in after if row[0] not in added]
    else:
        added = {*after[0]} - {*before[0]}
        kept = [[cell for column, cell in zip(after[0], row, strict=True) if column not in added] for row in after]
    return added if kept == before else None


def record_added(added: Mapping[str, set[str]]) -> None:
    """Add metrics to the list of the scale in the working folder. `added`: kind of a stage -> metrics."""
    rows = {*_recorded(), *((kind, name) for kind, names in added.items() for name in without_covered(names))}
    write_text(ADDED, csv_files.to_csv(sorted(rows), ["stage", "metric"]))


def lacking(files: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Return metric -> number of score files that lack it, for the metrics that were added since the files were made.

    Args:
        files: kind of a score stage -> paths of its files; files that are not JSON, or do not exist, are ignored.
    """
    found: Counter[str] = Counter()
    for kind, metric in _recorded():
        present = (Path(file) for file in files.get(kind, ()) if file.endswith(".json") and Path(file).is_file())
        trees = (_parsed(file.read_bytes()) for file in present)
        found[metric] += sum(not signature_of(metric, dict(tree.get("signatures", []))) for tree in trees)
    return {metric: count for metric, count in sorted(found.items()) if count}


def _recorded() -> list[tuple[str, str]]:
    rows = csv_files.read_csv(ADDED) if ADDED.is_file() else None
    return [] if rows is None else list(zip(rows.stage, rows.metric, strict=True))
