"""Comparisons of two versions of the code: trials of trainings, and replays of other stages.

A trial is a short training of a run by the former code, whose outcome is kept, and by the present code. In a replay, the present
code runs a stage on the inputs of the former code.
"""

import hashlib
import json
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from raretokens.errors import UserError
from raretokens.files import write_text
from reproduction import paths
from reproduction.pipeline import short_training
from reproduction.pipeline.lock_file import Stage, files_of, md5, md5_of
from reproduction.pipeline.records import added_metrics
from reproduction.pipeline.short_training import TrialRun, Version
from reproduction.pipeline.surroundings import root
from reproduction.report.diff import Revision

CACHE = paths.SCRATCH / "adopt"
PRESENT = Version(root())


@dataclass
class Trial:
    """A short training that represents all stages whose runs differ only in name and seed."""

    stages: list[Stage]
    parent: "Trial | None" = None  # trial whose weights initialise this one
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def stage(self) -> Stage:
        return self.stages[0]

    def __str__(self) -> str:
        others = len(self.stages) - 1
        return f"{self.stage.name}{f' and {others} more' if others else ''}"


class Trials:
    """All trials of a scale. Outcomes of the old code are kept, and outcomes of the new code are compared with them."""

    def __init__(self, revision: str, old: Version, stages: list[Stage]) -> None:
        self.revision, self.old = revision, old
        self.md5_of = cache(md5_of)  # of input files
        trials_of: dict[str, Trial] = {}
        named: dict[str, Trial] = {}  # path of the run that a trial represents -> trial
        for stage in (stage for stage in stages if stage.is_training and stage.is_former() and stage.new):
            job = short_training.shortened(json.loads(stage.old)["job"], short_training.STEPS[0])
            trial = trials_of.setdefault(stage.recipe(job), Trial([]))
            trial.stages.append(stage)
            named[_run_in(stage.outs)] = trial
        self.all = list(trials_of.values())
        for trial in self.all:
            if parent := _run_in(trial.stage.deps):
                if parent not in named:
                    raise UserError(f"{trial.stage.name}: starts from {parent}, which dvc.lock does not have")
                trial.parent = named[parent]

    def old_outcome(self, trial: Trial) -> dict[str, Any]:
        """Return the outcome of the old code from the cache, or train if it is missing or the parent's weights changed."""
        with trial.lock:
            start = trial.parent and self.old_outcome(trial.parent)["outcome"]["model.safetensors"]["all bytes"]
            done = self._folder(trial) / "outcome.json"
            if done.is_file():
                kept = json.loads(done.read_text(encoding="utf-8"))
                if kept.get("start") == start:
                    return kept
            outcome = {**self._train_old(trial), "start": start}
            write_text(done, json.dumps(outcome, indent=1) + "\n")
            return outcome

    def _folder(self, trial: Trial) -> Path:
        key = f"{short_training.FORMAT} {self.revision}".encode() + trial.stage.old
        return CACHE / hashlib.sha256(key).hexdigest()[:16]

    def _trial_run(self, trial: Trial, is_old: bool, folder: Path) -> TrialRun:
        """Return the trial as one version of the code runs it, after checking its inputs."""
        stage, parent = trial.stage, _run_in(trial.stage.deps)
        links = {}
        for path in stage.deps:
            target = Path(path)
            if path == parent:
                self.old_outcome(trial.parent)
                target = self._folder(trial.parent) / _run_in(trial.parent.stage.outs)
            elif not target.exists():
                raise UserError(f"{target}: missing, and {stage.name} reads it; dvc repro -s makes it")
            elif self.md5_of(target) != stage.deps[path]:
                raise UserError(f"{target}: not what dvc.lock says that {stage.name} read; dvc repro -s makes it")
            links[path] = target
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        version, job = (self.old, stage.old) if is_old else (PRESENT, stage.new)
        return TrialRun(version, stage.arguments, folder, json.loads(job), stage.job, links)

    def _train_old(self, trial: Trial) -> dict[str, Any]:
        began = time.monotonic()
        for steps in short_training.STEPS:
            run = self._trial_run(trial, True, self._folder(trial))
            run.prepare(steps)
            is_shortest = steps == short_training.STEPS[-1]
            if run.train(None if is_shortest else short_training.saved_every(steps) * short_training.SLOW):
                break
        outcome = run.outcome(steps)
        shutil.rmtree(run.folder / "states")
        if not any(other.parent is trial for other in self.all):
            shutil.rmtree(run.folder / paths.RUNS)
        return {"steps": steps, "seconds": round(time.monotonic() - began, 1), "outcome": outcome}

    def difference(self, trial: Trial) -> str | None:
        """Train with the new code, killed and resumed once. Return how the outcome differs, or None if it is equal."""
        folder = CACHE / "new" / self._folder(trial).name
        try:
            old = self.old_outcome(trial)
            run, steps, then = self._trial_run(trial, False, folder), old["steps"], old["outcome"]
            run.prepare(steps)
            run.train(is_killed=True)
            if found := short_training.difference(then, run.states_outcome(steps)):
                return found
            run.train()
            return short_training.difference(then, run.outcome(steps))
        except UserError as error:
            return str(error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Replay:
    """Replay of the selected stages of a scale in a separate folder, with links to inputs that no selected stage writes."""

    revision: str  # commit of the former code
    source: Path  # folder of the scale with the outputs of the former code
    stages: list[Stage]  # all stages of its dvc.lock
    selected: list[Stage]  # stages that run again
    folder: Path  # folder of the replay
    found: dict[str, str | None] = field(default_factory=dict)  # stage -> difference
    added: dict[str, set[str]] = field(default_factory=dict)  # kind of a stage -> metrics that only the new code writes

    def __post_init__(self) -> None:
        self.locks = {stage.name: threading.Lock() for stage in self.selected}
        self.linking = threading.Lock()
        shutil.rmtree(self.folder, ignore_errors=True)
        for stage in self.stages:
            if stage.new is not None:
                write_text(self.folder / stage.job, stage.new.decode())

    def difference(self, stage: Stage) -> str | None:
        """Run a stage after the stages that write its inputs. Return how its outputs differ, or None if they are equal."""
        with self.locks[stage.name]:
            if stage.name not in self.found:
                try:
                    for path in stage.deps:
                        self._provide(path)
                    PRESENT.run(stage.arguments, self.folder, f"{stage.name}.txt")
                    differences = (why for out in stage.outs.items() for why in self._compare(stage, *out))
                    self.found[stage.name] = next(differences, None)
                except UserError as error:
                    self.found[stage.name] = str(error)
            return self.found[stage.name]

    def _provide(self, path: str) -> None:
        """Make an input available in the folder: run the stage that writes it if selected, else link to its output.

        Raises:
            UserError: the former code did not write it.
        """
        for stage in self.stages:
            for out in stage.outs:
                if Path(out).is_relative_to(path) or Path(path).is_relative_to(out):
                    if stage.name in self.locks:
                        self.difference(stage)
                    else:
                        self._link(out)
        is_output = Path(path).is_relative_to(paths.DATA)  # others are files of this repository
        if is_output and not (self.folder / path).exists():
            raise UserError(f"{self.source / path}: not there, or not written by the code of {self.revision}")

    def _link(self, out: str) -> None:
        """Link to an output of the former code."""
        target, link = (self.source / out).absolute(), self.folder / out
        with self.linking:  # stages of other threads may read the same output
            if target.exists() and not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(target)

    def _is_same(self, stage: Stage, name: str, old: bytes, new: bytes) -> bool:
        """Return whether a file has the former content. Files of a score stage may have further metrics, which are kept."""
        if old == new:
            return True
        added = added_metrics(name, old, new) if stage.kind.startswith("score-") else None
        if added:
            self.added.setdefault(stage.kind, set()).update(added)
        return bool(added)

    def _compare(self, stage: Stage, path: str, recorded: str) -> Iterator[str]:
        """Yield how an output differs from the md5 in dvc.lock."""
        new, old = self.folder / path, self.source / path
        if not new.exists():
            yield f"{path}: the new code does not write it"
        elif md5_of(new) == recorded:
            return
        elif not old.exists() or md5_of(old) != recorded:  # as a report that was changed since
            then = Revision(self.revision, self.source).read(path) or b""
            if md5(then) != recorded:
                yield f"{path}: not the md5 in dvc.lock, {recorded}"
            elif not self._is_same(stage, path, then, new.read_bytes()):
                yield path
        else:
            names = files_of(old)
            for name in names:
                made, file = new / name, str(Path(path) / name)
                if not (made.is_file() and self._is_same(stage, file, (old / name).read_bytes(), made.read_bytes())):
                    yield file
            yield from (f"{Path(path) / name}: only the new code writes it" for name in sorted({*files_of(new)} - {*names}))


def _run_in(listed: Iterable[str]) -> str | None:
    """Return the path of a trained run among the dependencies or outputs of a stage, or None."""
    return next((path for path in listed if Path(path).is_relative_to(paths.RUNS)), None)
