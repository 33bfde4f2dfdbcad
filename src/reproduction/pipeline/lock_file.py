"""dvc.lock: its stages with the jobs that the former and the present code generate for them, and whether they are current."""

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from raretokens.yaml_files import read_yaml
from reproduction import paths
from reproduction.pipeline.jobs import job_files
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.records import lacking
from reproduction.pipeline.surroundings import root


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
    new: bytes | None = None  # job file that the present code writes; None: params.yaml no longer has the stage

    @property
    def kind(self) -> str:
        return self.name.partition("@")[0].removesuffix("-continued")

    @property
    def is_training(self) -> bool:
        return self.kind.startswith("train-")

    @property
    def arguments(self) -> list[str]:
        """Words of the command after stages/run: threads, stage, and arguments of the stage."""
        return shlex.split(self.command)[1:]

    def is_current(self) -> bool:
        """Return whether dvc.lock records the job that the present code writes."""
        return self.new is not None and md5(self.new) == self.md5

    def is_former(self) -> bool:
        """Return whether dvc.lock records the job that the former code writes."""
        return md5(self.old) == self.md5

    def changed(self) -> str | None:
        """Describe the first parameter that differs between the former and the present job; None if none differs."""
        return next(_changes(json.loads(self.old)["job"], json.loads(self.new or b"{}")["job"]), None)

    def recipe(self, job: dict[str, Any]) -> str:
        """Return kind and parameters without name, seed and hash, for stages whose runs differ in these alone."""
        run = {name: value for name, value in job.get("run", {}).items() if name not in ("name", "seed")}
        return self.kind + json.dumps({**job, "run": run, "parameters_hash": None}, sort_keys=True)


def _changes(old: Any, new: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _changes(old.get(key), new.get(key), f"{prefix}.{key}".lstrip("."))
    elif json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True):  # 1, 1.0 and true differ
        yield f"{prefix}: {old!r} became {new!r}"


def present_jobs(parameters: Path = paths.PARAMETERS) -> dict[str, bytes]:
    """Return path -> content of the job files that the present code makes from params.yaml."""
    return {str(paths.JOBS / file): content.encode() for file, content in job_files(load(parameters)).items()}


def read_stages(lock: Path, now: Mapping[str, bytes], then: Path | None = None) -> list[Stage]:
    """Read all stages of a dvc.lock that have a job.

    Args:
        now: path of a job file -> its present content.
        then: folder with the job files of the former code.
    """
    found = []
    for name, stage in read_yaml(lock)["stages"].items():
        deps = {dep["path"]: dep["md5"] for dep in stage.get("deps", [])}
        if job := next((path for path in deps if Path(path).is_relative_to(paths.JOBS)), None):
            recorded, outs = deps.pop(job), {out["path"]: out["md5"] for out in stage.get("outs", [])}
            old = (then / job).read_bytes() if then and (then / job).is_file() else b""
            found.append(Stage(name, stage["cmd"], job, recorded, deps, outs, old, now.get(job)))
    return found


class Verification(NamedTuple):
    """Whether the reports match the present code, parameters and declarations."""

    stages: int  # number of stages that were run
    outdated: list[str]  # names of stages whose present jobs differ from dvc.lock
    inputs: list[str]  # committed inputs that differ from dvc.lock, such as data/paper
    changed: list[str]  # report files and folders that differ from dvc.lock, and report files that no stage makes
    lacking: Mapping[str, int] = MappingProxyType({})  # metric that was added since -> number of score files without it

    @property
    def matches(self) -> bool:
        return not (self.outdated or self.inputs or self.changed)

    def __str__(self) -> str:
        if self.changed:
            return f"not what dvc.lock says: {', '.join(self.changed)}"
        if not self.stages:
            return "never run"
        if self.matches:
            metrics = ", ".join(f"{name} ({count} files)" for name, count in self.lacking.items())
            lack = f"; score files that were adopted lack metrics that were added since: {metrics}" if metrics else ""
            return f"the outputs of {self.stages} stages belong to this code and these parameters{lack}"
        kinds = Counter(name.partition("@")[0] for name in self.outdated)
        newer = [*(f"{kind} ({count})" for kind, count in kinds.items()), *self.inputs]
        return f"newer than the reports: {', '.join(newer)}; dvc repro makes the reports anew"


def verify() -> Verification:
    """Compare dvc.lock of the scale in the working folder with its jobs, inputs and reports, without running a stage.

    A scale that never ran has 0 stages. Stages that params.yaml no longer declares, but dvc.lock keeps, are left out.
    """
    stages = read_stages(paths.LOCK, present_jobs()) if paths.LOCK.is_file() else []
    stages = [stage for stage in stages if stage.new is not None]
    inputs = {path: own for stage in stages for path, own in stage.deps.items() if _is_committed(path)}
    kinds = {stage.kind for stage in stages}
    outs = {path: own for stage in stages for path, own in stage.outs.items()}
    reports = {path: own for path, own in outs.items() if paths.REPORTS in Path(path).parents}
    return Verification(
        stages=len(stages),
        outdated=[stage.name for stage in stages if md5(stage.new) != stage.md5],
        inputs=_differing(inputs),
        changed=[*_differing(reports), *_without_stage(stages)],
        lacking=lacking({kind: [out for stage in stages if stage.kind == kind for out in stage.outs] for kind in kinds}),
    )


def _is_committed(path: str) -> bool:
    """Return whether an input is in git: the declarations of the papers, and files of the code."""
    full, top = Path(path).resolve(), root().resolve()
    return any(full.is_relative_to(top / folder) for folder in (paths.PAPERS, "src"))


def _differing(recorded: Mapping[str, str]) -> list[str]:
    return [path for path, own in recorded.items() if not Path(path).exists() or md5_of(Path(path)) != own]


def _without_stage(stages: list[Stage]) -> list[str]:
    """Return the files below reports that are no output of a stage; the folder itself if no stage was run."""
    if not paths.REPORTS.is_dir() or not stages:
        return [str(paths.REPORTS)] * paths.REPORTS.is_dir()
    made = {Path(path) for stage in stages for path in stage.outs}
    files = [paths.REPORTS / name for name in files_of(paths.REPORTS)]
    return [str(file) for file in files if not made & {file, *file.parents}]


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def files_of(target: Path) -> list[str]:
    """Return all files of a folder as relative paths; [""] if `target` is itself a file."""
    if target.is_file():
        return [""]
    return sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file())


def md5_of(target: Path) -> str:
    """Return DVC's md5 of a file, or of a folder (with suffix .dir)."""
    if target.is_file():
        return md5(target.read_bytes())
    from dvc_data.hashfile.hash_info import HashInfo
    from dvc_data.hashfile.meta import Meta
    from dvc_data.hashfile.tree import Tree

    tree = Tree()
    for name in files_of(target):
        tree.add(tuple(name.split("/")), Meta(), HashInfo("md5", md5((target / name).read_bytes())))
    tree.digest()
    return tree.hash_info.value
