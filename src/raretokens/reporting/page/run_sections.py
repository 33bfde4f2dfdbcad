"""Runs on the page: what each was, its loss while training, and every score with its signature."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raretokens.errors import UserError
from raretokens.reporting.declarations.schema import Declarations, Metric
from raretokens.reporting.scored import Scores

TIMES = Path("data/scratch/timing")  # <task>-<run>.json: seconds, machine, revision; written while training
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560, 206, 48, 12, 26  # of a curve, in its own units
GROUPS = {
    "total": "total",
    "freq": "frequent",
    "med": "medium",
    "rare": "rare",
}  # of types: end of a path, name on the page
POINTS = 100  # of a curve on the page; all of them are in the CSV file beside it


def sections(declared: Declarations, scores: dict[str, Scores], times: Path) -> list[dict[str, Any]]:
    """All runs that have scores, in the order of the run sheet; data rows (the text itself) follow."""
    found = []
    for task, part in scores.items():
        for name in (*part.lines, "human", "copy"):
            if score := part.read(name):
                found.append(
                    {
                        "task": task,
                        "name": name,
                        "data": name not in part.lines,
                        "score": score,
                        "facts": list(_facts(score)),
                        "scores": list(_scores(declared, part, name, score)),
                        "curve": curve(part.points(name)),
                        "points": part.points(name).is_file(),
                        "time": _time(times / f"{task}-{name}.json"),
                    }
                )
    return found


def curve(points: Path) -> dict[str, Any] | None:
    """The loss over the updates (series `nll`) as polylines of a WIDTH x HEIGHT drawing; None where nothing is logged."""
    if not points.is_file():
        return None
    lines: dict[str, list[tuple[float, float]]] = {}
    for line in points.read_text(encoding="utf-8").splitlines():
        if line.startswith("nll,"):  # few lines of a long file
            _, group, x, y = line.split(",")
            lines.setdefault(group, []).append((float(x), float(y)))
    if not lines:
        return None
    xs, ys = zip(*(point for found in lines.values() for point in found), strict=True)
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)

    def place(x: float, y: float) -> tuple[str, str]:
        across = LEFT + (WIDTH - LEFT - 6) * (x - left) / ((right - left) or 1)
        down = TOP + (HEIGHT - BOTTOM - TOP) * (high - y) / ((high - low) or 1)
        return f"{across:.0f}", f"{down:.0f}"

    def points(found: list[tuple[float, float]]) -> str:
        thinned = found[:: -(-len(found) // POINTS)]
        return " ".join(",".join(place(*point)) for point in dict.fromkeys((*thinned, found[-1])))

    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "lines": {group: points(found) for group, found in lines.items()},
        "last": {group: f"{found[-1][1]:.3f}" for group, found in lines.items()},
        "across": [(place(x, low)[0], f"{x:.0f}") for x in dict.fromkeys((left, (left + right) / 2, right))],
        "up": [(place(left, y)[1], f"{y:.2f}") for y in dict.fromkeys((low, (low + high) / 2, high))],
    }


def _facts(score: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What ran: the parameters as the score file lists them, then the objective's options."""
    for key in ("objective", "size", "seed"):
        if score.get(key) is not None:
            yield key, score[key]
    for key, value in (*score.get("parameters", []), *score.get("options", [])):
        yield key.replace("_", " "), f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def _scores(declared: Declarations, scores: Scores, name: str, score: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every metric of a run, its frequency groups beside the whole, with the signature of its path's longest beginning."""
    paired = scores.read("paired") or {}
    signed = dict((*score.get("signatures", []), *(("paired", text) for _, text in paired.get("signatures", []))))
    own = {"paired": paired["metrics"][name]} if name in paired.get("metrics", {}) else {}
    found: dict[str, dict[str, str]] = {}  # path without its group -> group -> value
    for path, value in _flat({**score.get("metrics", {}), **own}):
        stem, _, last = path.rpartition(".")
        is_group = last in GROUPS
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        found.setdefault(stem if is_group else path, {})[last if is_group else "total"] = shown
    for path, values in found.items():
        beginnings = [path.rsplit(".", cut)[0] for cut in range(path.count(".") + 1)]
        yield {
            "path": path,
            "groups": values,
            "metric": metric_of(declared, path) or metric_of(declared, f"{path}.total"),
            "signature": next((signed[part] for part in beginnings if part in signed), ""),
        }


def metric_of(declared: Declarations, path: str) -> Metric | None:
    """How a metric is shown; None for one that nobody declared, as an objective of one's own may report."""
    try:
        return declared.metric(path)
    except UserError:
        return None


def _flat(tree: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        elif value is not None:
            yield before + key, value


def _time(path: Path) -> dict[str, Any] | None:
    """Of a run that was trained here; another machine's is not in the reports, so that equal runs give equal ones."""
    if not path.is_file():
        return None
    facts = json.loads(path.read_text(encoding="utf-8"))
    seconds = round(facts["seconds"])
    hours, minutes = seconds // 3600, seconds // 60 % 60
    words = [(hours, "h"), (minutes, "min"), (seconds % 60, "s")]
    shown = " ".join(f"{count} {unit}" for count, unit in words[0 if hours else 1 if minutes else 2 :])
    return {"seconds": seconds, "shown": shown, "machine": facts["machine"], "revision": facts["revision"]}
