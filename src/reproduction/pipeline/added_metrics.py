"""Metrics that new code adds to the files of a score stage while it keeps their former content.

The file `added.csv` of a scale lists them, because adopted score files lack them until their stages run again.
"""

import csv
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from raretokens import csv_files
from raretokens.files import write_text
from raretokens.metrics.score_files import signature_of

ADDED = Path("added.csv")  # in the folder of a scale: kind of a score stage, and a metric that its files may lack


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


def record(added: Mapping[str, set[str]]) -> None:
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
