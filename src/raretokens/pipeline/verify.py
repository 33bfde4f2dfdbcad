"""Verification that committed reports match the committed code and parameters, without running a stage.

dvc.lock records the job and the outputs of each stage. A stage whose present job differs is out of date. A report that differs
from dvc.lock was edited after the stage wrote it, or was not committed with its dvc.lock.
"""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from raretokens import paths
from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import job_files
from raretokens.pipeline.lock_file import LOCK, md5
from raretokens.yaml_files import read_yaml


class Verification(NamedTuple):
    stages: int  # number of stages that were run
    outdated: list[str]  # names of stages whose present jobs differ from dvc.lock
    changed: list[str]  # report files that differ from dvc.lock

    def __str__(self) -> str:
        if self.changed:
            return f"not what dvc.lock says: {', '.join(self.changed)}"
        if not self.stages:
            return "never run"
        if not self.outdated:
            return f"the outputs of {self.stages} stages belong to this code and these parameters"
        kinds = Counter(name.partition("@")[0] for name in self.outdated)
        stages = ", ".join(f"{kind} ({count})" for kind, count in kinds.items())
        return f"newer than the reports: {stages}; dvc repro runs them"


def verify() -> Verification:
    """Compare dvc.lock of the scale in the working folder with its jobs and reports. A scale that never ran has 0 stages."""
    if not LOCK.is_file():
        return Verification(0, [], [])
    now = {str(paths.JOBS / file): md5(content.encode()) for file, content in job_files(load()).items()}
    # dvc.lock keeps stages that params.yaml no longer declares.
    stages = {name: stage for name, stage in read_yaml(LOCK)["stages"].items() if _jobs(stage).keys() <= now.keys()}
    stages = {name: stage for name, stage in stages.items() if _jobs(stage)}
    outdated = [name for name, stage in stages.items() if any(now[file] != own for file, own in _jobs(stage).items())]
    reports = {path: own for stage in stages.values() for path, own in _reports(stage).items()}
    present = {path: md5(Path(path).read_bytes()) if Path(path).is_file() else "" for path in reports}
    return Verification(len(stages), outdated, [path for path, own in reports.items() if present[path] != own])


def _jobs(stage: dict[str, Any]) -> dict[str, str]:
    """Return path -> md5 of the job files that a stage depends on."""
    return {dep["path"]: dep["md5"] for dep in stage.get("deps", []) if Path(dep["path"]).is_relative_to(paths.JOBS)}


def _reports(stage: dict[str, Any]) -> dict[str, str]:
    """Return path -> md5 of the report files in git that a stage wrote."""
    reports = (out for out in stage.get("outs", []) if Path(out["path"]).is_relative_to(paths.REPORTS))
    return {out["path"]: out["md5"] for out in reports if not out["md5"].endswith(".dir")}
