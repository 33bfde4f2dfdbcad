"""Claims and the scores of invented runs, for tests of verdicts."""

import json
import re
from pathlib import Path

from reproduction.papers.claim import Claim
from reproduction.papers.task_scores import TaskScores
from reproduction.papers.verdicts import judge
from tiny.run_sheet import DECLARED, line


def world(folder: Path, scores: dict[str, dict], seeds: dict[str, int] | None = None, curves: str = "") -> TaskScores:
    """Language-model runs with these metrics; `a-2` is `a` with another seed. curves: the points of every run."""
    (folder / "lm").mkdir()
    seeds = seeds or {}
    for name, score in scores.items():
        text = json.dumps({"seed": seeds.get(name, 1), **score})
        (folder / f"lm/{name}.json").write_text(text)
        (folder / f"lm/{name}.csv").write_text(f"series,group,x,y\n{curves}")
    sheet = {name: line(re.sub(r"-\d$", "", name), seed=seeds.get(name, 1)) for name in scores}
    return TaskScores(sheet, task="lm", folder=folder / "lm")


def claim(left: dict, right: dict | None = None, **more) -> Claim:
    base = {"tables": [3], "statement": "s", "task": "lm", "effect": "difference", "expect": "higher"}
    return Claim(left=left, right=right, **{**base, "unreported": "drawn", **more})


def three(name: str, values: list[float]) -> dict[str, float]:
    """Values of a run and its repetitions."""
    return {name if n == 1 else f"{name}-{n}": value for n, value in enumerate(values, 1)}


def judged(
    folder: Path, declared: Claim, values: dict[str, float], metric: str = "isotropy.total", drawn: dict | None = None
):
    group, name = metric.split(".")
    scores = {run: {"metrics": {group: {name: value}}} for run, value in values.items()}
    seeds = {run: int(run.rpartition("-")[2]) if "-" in run else 1 for run in values}
    made = world(folder, scores, seeds)
    for run, column in (drawn or {}).items():
        (folder / f"lm/{run}.bootstrap.csv").write_text("\n".join([metric, *map(str, column)]) + "\n")
    return judge("c", declared, made, DECLARED)


AGAINST = claim({"runs": ["a"], "metric": "isotropy.total"}, {"runs": ["b"], "metric": "isotropy.total"})
SAME = claim(AGAINST.left.model_dump(), AGAINST.right.model_dump(), expect="same", margin=0.05)
