"""Adopt what a scale's runs left for changed code, where the code is shown to do the same: nothing is trained again.

A stage of dvc.lock whose job differs from the present one in its code alone is a candidate. A training is tried for a few steps
with the old code and with the new (trials.py). Only where every candidate gives the same bytes are the present jobs written into
dvc.lock.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raretokens import paths
from raretokens.errors import UserError
from raretokens.files import atomic_write
from raretokens.pipeline import renames, trained
from raretokens.pipeline.config import load
from raretokens.pipeline.context import root
from raretokens.pipeline.jobs import job_files
from raretokens.pipeline.lock_file import Stage, read_stages
from raretokens.pipeline.lock_file import md5 as of
from raretokens.pipeline.machine.timing import revision as present
from raretokens.pipeline.replays import Replay, distinct
from raretokens.pipeline.short_training import Code
from raretokens.pipeline.trials import CACHE, Trial, Trials
from raretokens.pipeline.verify import LOCK

DATA = ("fetch", "own", "prepare", "similarity", "encode", "align", "baseline")  # need no model
LEFT = ("jobs", "report")  # stages that `dvc repro` runs in seconds


@dataclass(frozen=True)
class Adoption:
    """Of the scale in the working folder. demo: folder of a scale that the revision ran, with its weights."""

    revision: str
    jobs: int  # processes at a time
    demo: Path
    report: Callable[[str], None] = print  # hears of each comparison as it ends

    def keep_old(self) -> None:
        """Run the old code's side of all trials, and keep their results."""
        with checkout(self.revision) as old:
            found = Trials(self.revision, Code(old), Code(root()), self._stages(old))

            def one(trial: Trial) -> None:
                try:
                    self.report(f"{trial}: {found.old_outcome(trial)['seconds']} s")
                except UserError as error:
                    self.report(f"{trial}: {error}")

            self._each(one, found.all)

    def adopt(self) -> bool:
        """Whether all candidates were adopted; if not, nothing is changed."""
        with checkout(self.revision) as old:
            stages = self._stages(old)
            candidates = [stage for stage in stages if stage.new is not None and not stage.is_current()]
            candidates = [stage for stage in candidates if stage.kind not in LEFT]
            if not candidates:
                self.report(f"every stage of {LOCK} has the job that this code and these parameters make")
                return True
            outs = {}
            refused = [why for stage in candidates if (why := self._refusal(stage))]
            for stage in candidates:
                try:
                    outs |= migrated(stage, self.revision)
                except UserError as error:
                    refused.append(f"{stage.name}: {error}")
            if not refused:
                refused = [*self._train(old, stages, candidates), *self._replay(old, stages, candidates)]
        for line in refused:
            self.report(f"refused: {line}")
        if refused:
            self.report(f"{len(refused)} stages refused: {LOCK} is as it was")
            return False
        write(candidates, outs)
        self.report(f"{len(candidates)} stages adopted")
        return True

    def _stages(self, old: Path) -> list[Stage]:
        folder = old / _git("rev-parse", "--show-prefix")
        Code(old).run(["1", "jobs"], folder)
        return read_stages(
            LOCK, folder, {str(paths.JOBS / file): content for file, content in job_files(load()).items()}
        )

    def _refusal(self, stage: Stage) -> str | None:
        """Why it cannot be adopted, whatever a comparison shows."""
        if not stage.is_former():
            return f"{stage.name}: {self.revision} makes another job than that in {LOCK}; allowed: the revision that ran it"
        changed = stage.changed()
        return changed and f"{stage.name}: its parameters differ: {changed}"

    def _train(self, old: Path, stages: list[Stage], candidates: list[Stage]) -> list[str]:
        """Refusals of trainings."""
        found, names = Trials(self.revision, Code(old), Code(root()), stages), {stage.name for stage in candidates}
        refused = []

        def one(trial: Trial) -> None:
            began, why = time.monotonic(), found.difference(trial)
            took = time.monotonic() - began
            self.report(f"{trial}: {why}" if why else f"{trial}: equal, {found.steps(trial)} steps, {took:.0f} s")
            refused.extend(f"{stage.name}: {why}" for stage in trial.stages if why)

        self._each(one, [trial for trial in found.all if names & {stage.name for stage in trial.stages}])
        return refused

    def _replay(self, old: Path, stages: list[Stage], candidates: list[Stage]) -> list[str]:
        """Refusals of other stages: those of data by this scale's own, those of models by the demo's."""
        data = [stage for stage in candidates if stage.kind in DATA]
        kinds = {stage.kind for stage in candidates if stage.kind not in DATA and not stage.is_training}
        differs = self._compare(Replay(Code(root()), Path(), stages, {s.name for s in data}, CACHE / "replay"), data)
        refused = [f"{name}: {why}" for name, why in differs.items()]
        if not kinds:
            return refused
        demo_stages = self._demo(old)
        selected = [stage for stage in distinct(demo_stages) if stage.kind in kinds]
        names = {stage.name for stage in selected}
        differs = self._compare(Replay(Code(root()), self.demo, demo_stages, names, CACHE / "demo"), selected)
        bad = {name.partition("@")[0].removesuffix("-continued"): f"{name}: {why}" for name, why in differs.items()}
        bad |= {kind: f"{self.demo}: no {kind} that {self.revision} ran" for kind in kinds - {s.kind for s in selected}}
        return refused + [f"{stage.name}: in the demo, {bad[stage.kind]}" for stage in candidates if stage.kind in bad]

    def _compare(self, replay: Replay, selected: list[Stage]) -> dict[str, str]:
        """Stage -> what differs, of those where something does."""

        def one(stage: Stage) -> None:
            self.report(f"{stage.name}: {replay.difference(stage) or 'equal'}")

        self._each(one, selected)
        shutil.rmtree(replay.folder, ignore_errors=True)
        return {stage.name: why for stage in selected if (why := replay.found[stage.name])}

    def _demo(self, old: Path) -> list[Stage]:
        """Stages of the demo that the revision ran with the parameters of the root."""
        Code(old).run(["1", "jobs"], old)
        folder = CACHE / "jobs"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(root() / paths.PARAMETERS, folder)
        Code(root()).run(["1", "jobs"], folder)
        now = {str(path.relative_to(folder)): path.read_text() for path in (folder / paths.JOBS).glob("*/*.json")}
        stages = read_stages(self.demo / LOCK, old, now)
        shutil.rmtree(folder)
        return [stage for stage in stages if stage.new and stage.is_former() and not stage.changed()]

    def _each(self, function: Callable[[Any], None], selected: list[Any]) -> None:
        with ThreadPoolExecutor(self.jobs) as pool:
            for _ in pool.map(function, selected):
                pass


def migrated(stage: Stage, revision: str) -> dict[str, dict[str, Any]]:
    """Committed outputs of a stage that hold the same in present names: former path -> what dvc.lock is to say of it.

    Raises UserError where one holds something else than what dvc.lock says.
    """
    found = {}
    for out, md5 in stage.outs.items():
        place = Path(renames.path(out))
        if not Path(out).is_relative_to(paths.REPORTS) or renames.is_dropped(out):
            continue
        content = place.read_bytes() if place.is_file() else b""
        if of(content) != md5:
            then = _git_bytes("show", f"{revision}:./{out}")
            if of(then) != md5 or not renames.same_content(out, then, content):
                raise UserError(f"{place}: not what {LOCK} says; dvc repro or git restore makes it so")
            found[out] = {"md5": of(content), "size": len(content)}
    return found


def write(adopted: list[Stage], outs: dict[str, dict[str, Any]]) -> None:
    """Write the present jobs of stages into dvc.lock, and who adopted them into trained.csv. outs: of migrated()."""
    from dvc.utils.serialize import modify_yaml

    by_name = {stage.name: stage for stage in adopted}
    with atomic_write(LOCK) as part:
        shutil.copy(LOCK, part)
        with modify_yaml(part) as tree:
            for name, entry in tree["stages"].items():
                if name in by_name:
                    _rewrite(entry, by_name[name], outs)
            if renames.STAGES:
                entries = {renames.stage(name): entry for name, entry in tree["stages"].items()}
                tree["stages"].clear()
                tree["stages"].update(entries)
    trained.adopt({tuple(stage.arguments[2:]) for stage in adopted if stage.is_training}, present() or "")


def _rewrite(entry: dict[str, Any], stage: Stage, outs: dict[str, dict[str, Any]]) -> None:
    told = (stage.new or "").encode()
    entry["cmd"] = stage.new_command
    for dep in entry["deps"]:
        if dep["path"] == stage.job:
            dep.update(md5=of(told), size=len(told))
        dep["path"] = renames.path(dep["path"])
    entry["deps"].sort(key=lambda dep: dep["path"])  # as DVC writes them
    dropped = [out for out in entry["outs"] if renames.is_dropped(out["path"])]
    for out in dropped:
        entry["outs"].remove(out)
    for out in entry["outs"]:
        out.update(outs.get(out["path"], {}))
        out["path"] = renames.path(out["path"])
    entry["outs"].sort(key=lambda out: out["path"])


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A git worktree of a revision of this code, for as long as the `with` lasts."""
    folder = (CACHE / "code" / f"{revision}-{os.getpid()}").absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    _git("worktree", "add", "--detach", str(folder), revision)
    try:
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(folder))


def verified_at() -> str:
    """The last commit that changed dvc.lock of the working folder."""
    return resolved(_git("log", "-1", "--format=%H", "--", str(LOCK)) or "HEAD")


def resolved(revision: str) -> str:
    """Its short hash. Raises UserError where git does not know it."""
    return _git("rev-parse", "--short=12", f"{revision}^{{commit}}")


def _git(*command: str) -> str:
    return _git_bytes(*command).decode().strip()


def _git_bytes(*command: str) -> bytes:
    done = subprocess.run(["git", *command], capture_output=True, check=False)
    if done.returncode:
        raise UserError(f"git {shlex.join(command)}: {''.join(done.stderr.decode().strip().splitlines()[-1:])}")
    return done.stdout
