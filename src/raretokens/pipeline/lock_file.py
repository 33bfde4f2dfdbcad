"""Stages of a dvc.lock, with the jobs that the former and the present code generate for them."""

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raretokens import paths
from raretokens.pipeline import renames
from raretokens.yaml_files import read_yaml

LOCK = Path("dvc.lock")


@dataclass(frozen=True)
class Stage:
    """A stage of dvc.lock with its former and its present job."""

    name: str  # kind@key
    command: str
    job: str  # path of the job file
    md5: str  # md5 of the job file in dvc.lock
    deps: Mapping[str, str]  # path of another dependency -> md5
    outs: Mapping[str, str] = field(default_factory=dict)  # path of an output -> md5
    old: bytes = b""  # job file that the former code writes
    new: str | None = None  # job file that the present code writes; None: params.yaml no longer has the stage

    @property
    def kind(self) -> str:
        return self.name.partition("@")[0].removesuffix("-continued")

    @property
    def is_training(self) -> bool:
        return self.kind.startswith("train-")

    @property
    def arguments(self) -> list[str]:
        """Words of the former command after stages/run: threads, stage, and arguments of the stage."""
        return shlex.split(self.command)[1:]

    @property
    def new_arguments(self) -> list[str]:
        return shlex.split(self.new_command)[1:]

    @property
    def new_name(self) -> str:
        return renames.stage(self.name)

    @property
    def new_job(self) -> str:
        return renames.path(self.job)

    @property
    def new_command(self) -> str:
        return renames.command(self.command)

    def is_current(self) -> bool:
        same_names = (self.new_name, self.new_job, self.new_command) == (self.name, self.job, self.command)
        return same_names and self.new is not None and md5(self.new.encode()) == self.md5

    def is_former(self) -> bool:
        """Return whether dvc.lock records the job that the former code writes."""
        return md5(self.old) == self.md5

    def changed(self) -> str | None:
        """Describe the first parameter that differs between the former and the present job; None if none differs."""
        old, new = renames.job(json.loads(self.old)["job"]), json.loads(self.new or "{}")["job"]
        new = renames.without_added(new, old)
        return next(_changes(renames.without_hashes(old), renames.without_hashes(new)), None)


def read_stages(lock: Path, then: Path, now: Mapping[str, str]) -> list[Stage]:
    """Read all stages of a dvc.lock that have a job.

    Args:
        then: folder with the job files of the former code.
        now: path of a job file -> its present content.
    """
    found = []
    for name, stage in read_yaml(lock)["stages"].items():
        for dep in stage.get("deps", []):
            if Path(dep["path"]).is_relative_to(paths.JOBS):
                file = then / dep["path"]
                old = file.read_bytes() if file.is_file() else b""
                deps = {other["path"]: other["md5"] for other in stage["deps"] if other is not dep}
                outs = {out["path"]: out["md5"] for out in stage.get("outs", [])}
                new = now.get(renames.path(dep["path"]))
                found.append(Stage(name, stage["cmd"], dep["path"], dep["md5"], deps, outs, old, new))
    return found


def _changes(old: Any, new: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _changes(old.get(key), new.get(key), f"{prefix}.{key}".lstrip("."))
    elif old != new or type(old) is not type(new):
        yield f"{prefix}: {old} became {new}"


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def files_of(target: Path) -> list[str]:
    """Return all files of a folder as relative paths; [""] if `target` is itself a file."""
    if target.is_file():
        return [""]
    return sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file())


def md5_of(target: Path) -> str:
    """Compute DVC's md5 of a file, or of a folder (with suffix .dir)."""
    if target.is_file():
        return md5(target.read_bytes())
    listed = [{"md5": md5((target / name).read_bytes()), "relpath": name} for name in files_of(target)]
    return md5(json.dumps(listed, sort_keys=True).encode()) + ".dir"
