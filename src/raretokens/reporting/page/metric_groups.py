"""Every metric of a run, its frequency groups side by side."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from raretokens.evidence import bootstrap
from raretokens.evidence.scores import Scores
from raretokens.papers.declarations import Declarations

GROUPS = {"total": "total", "freq": "frequent", "med": "medium", "rare": "rare"}  # end of a path -> name on the page


def grouped(declared: Declarations, scores: Scores, name: str) -> Iterator[dict[str, Any]]:
    """A line for each metric, with the signature of its path's longest beginning."""
    signatures = _signatures(scores, name)
    for path, values in _by_path(_metrics(scores, name)).items():
        beginnings = [path.rsplit(".", cut)[0] for cut in range(path.count(".") + 1)]
        yield {
            "path": path,
            "groups": values,
            "by_group": values.keys() != {"total"},
            "metric": declared.known_metric(path) or declared.known_metric(f"{path}.total"),
            "signature": next((signatures[part] for part in beginnings if part in signatures), ""),
        }


def explained(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line for each metric of the runs of a task: what it is, and the signature that most runs have."""
    lines: dict[str, dict[str, Any]] = {}
    signatures: dict[str, Counter[str]] = {}
    for score in (score for run in runs for score in run["scores"]):
        lines.setdefault(score["path"], {key: score[key] for key in ("path", "metric")})
        signatures.setdefault(score["path"], Counter())[score["signature"]] += 1
    return [{**line, "signature": signatures[path].most_common(1)[0][0]} for path, line in lines.items()]


def _metrics(scores: Scores, name: str) -> dict[str, Any]:
    """Those of the run, and of its comparison with maximum likelihood."""
    return {**(scores.read(name) or {}).get("metrics", {}), "paired": scores.paired(name)}


def _signatures(scores: Scores, name: str) -> dict[str, str]:
    own = dict((scores.read(name) or {}).get("signatures", []))
    beside = scores.beside(name)
    return {**own, "paired": f"baseline:{beside}|{own.get(bootstrap.METRIC)}|{bootstrap.SIGNATURE}"} if beside else own


def _by_path(metrics: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Path without its group -> group -> number."""
    paths: dict[str, dict[str, str]] = {}
    for path, value in _flat(metrics):
        start, _, end = path.rpartition(".")
        key, group = (start, end) if end in GROUPS else (path, "total")
        paths.setdefault(key, {})[group] = f"{value:.6g}" if isinstance(value, float) else str(value)
    return paths


def _flat(tree: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        elif value is not None:
            yield before + key, value
