"""The layout of a score file (docs/artifacts.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

Signed = dict[str, tuple[Any, str]]  # metric -> (value, signature)


def layout(
    facts: Mapping[str, Any],
    metrics: Signed,
    near: Mapping[str, list] | None = None,
    options: Mapping[str, Any] | None = None,
    parameters: Sequence = (),
) -> dict[str, Any]:
    """A score file's tree; a dotted metric name opens a dictionary. Text sits in lists, which `dvc exp show` skips."""
    values: dict[str, Any] = {}
    for path, (value, _) in metrics.items():
        *parents, name = path.split(".")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return {
        **dict.fromkeys(("run", "task", "objective", "size", "seed")),
        **facts,
        "metrics": values,
        "neighbours": [[query, rows] for query, rows in (near or {}).items()],
        "signatures": [[path, signature] for path, (_, signature) in metrics.items()],
        "options": [[key, value] for key, value in (options or {}).items()],
        "parameters": list(parameters),
    }
