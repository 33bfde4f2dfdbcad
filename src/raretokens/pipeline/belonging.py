"""Whether committed reports belong to the code and the parameters that they are committed with: nothing is run for it.

dvc.lock says what each stage was told and what it wrote. A stage that would be told something else now is newer than its reports;
a report that is not what its stage wrote was changed since, or not committed with its dvc.lock.
"""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from raretokens import paths
from raretokens.config.load import load
from raretokens.pipeline.jobs import texts
from raretokens.yaml_files import read_yaml

LOCK = Path("dvc.lock")
Sums = dict[str, str]  # path -> md5


class Belonging(NamedTuple):
    stages: int  # that were run
    newer: list[str]  # names of those that would be told something else now
    changed: list[str]  # files of reports that are not what dvc.lock says


def belonging() -> Belonging:
    """Of the scale in the working folder; one that was never run has no stages."""
    if not LOCK.is_file():
        return Belonging(0, [], [])
    now = {str(paths.JOBS / file): _md5(content.encode()) for file, content in texts(load()).items()}
    # dvc.lock remembers stages that params.yaml no longer has.
    stages = [(name, stage, told) for name, stage in read_yaml(LOCK)["stages"].items() if (told := _told(stage))]
    stages = [(name, stage, told) for name, stage, told in stages if told.keys() <= now.keys()]
    newer = [name for name, _, told in stages if any(now[file] != md5 for file, md5 in told.items())]
    written = {path: md5 for _, stage, _ in stages for path, md5 in _written(stage).items()}
    return Belonging(len(stages), newer, [path for path, md5 in written.items() if _md5_of(Path(path)) != md5])


def in_words(found: Belonging) -> str:
    if found.changed:
        return f"not what dvc.lock says: {', '.join(found.changed)}"
    if not found.stages:
        return "never run"
    if not found.newer:
        return f"what {found.stages} stages wrote belongs to this code and these parameters"
    kinds = Counter(name.partition("@")[0] for name in found.newer)
    return f"newer than the reports: {', '.join(f'{kind} ({count})' for kind, count in kinds.items())}; dvc repro runs them"


def _told(stage: dict[str, Any]) -> Sums:
    """What tells it what to do: files of data/jobs."""
    return {dep["path"]: dep["md5"] for dep in stage.get("deps", []) if Path(dep["path"]).is_relative_to(paths.JOBS)}


def _written(stage: dict[str, Any]) -> Sums:
    """Its files of reports."""
    reports = (out for out in stage.get("outs", []) if Path(out["path"]).is_relative_to(paths.REPORTS))
    return {out["path"]: out["md5"] for out in reports if not out["md5"].endswith(".dir")}


def _md5_of(path: Path) -> str:
    return _md5(path.read_bytes()) if path.is_file() else ""


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
