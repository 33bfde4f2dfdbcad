"""Trials: short trainings of each distinct run by the former code, whose outcome is kept, and by the present code."""

import hashlib
import json
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raretokens import paths
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.pipeline import renames, short_training
from raretokens.pipeline.lock_file import Stage, md5_of
from raretokens.pipeline.short_training import Code, TrialRun

CACHE = paths.SCRATCH / "adopt"


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

    def __init__(self, revision: str, old: Code, new: Code, stages: list[Stage]) -> None:
        self.revision, self.old, self.new = revision, old, new
        self.lock, self.md5s = threading.Lock(), dict[Path, str]()  # md5s of input files
        trials_of: dict[str, Trial] = {}
        named: dict[str, Trial] = {}  # path of a job file -> trial
        for stage in (stage for stage in stages if stage.is_training and stage.is_former()):
            job = short_training.shortened(json.loads(stage.old)["job"], short_training.STEPS[0])
            trial = trials_of.setdefault(stage.kind + short_training.key(job), Trial([]))
            trial.stages.append(stage)
            named[stage.job] = trial
        self.all = list(trials_of.values())
        for trial in self.all:
            if parent := _parent(trial.stage):
                job = f"{paths.JOBS}/{trial.stage.kind}/{Path(parent).name}.json"
                if job not in named:
                    raise UserError(f"{trial.stage.name}: starts from {parent}, which dvc.lock does not have")
                trial.parent = named[job]

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

    def steps(self, trial: Trial) -> int:
        """Return the number of steps of a trial."""
        return self.old_outcome(trial)["steps"]

    def _folder(self, trial: Trial) -> Path:
        key = f"{short_training.FORMAT} {self.revision}".encode() + trial.stage.old
        return CACHE / hashlib.sha256(key).hexdigest()[:16]

    def _trial_run(self, trial: Trial, code: Code, folder: Path, is_new: bool) -> TrialRun:
        stage = trial.stage
        links = {path: Path(renames.path(path)) for path in stage.deps if not _is_run(path)}
        if trial.parent:
            self.old_outcome(trial.parent)
            links[_parent(stage)] = self._folder(trial.parent) / _out(trial.parent.stage)
        for path, target in links.items():
            if not target.exists():
                raise UserError(f"{target}: missing, and {stage.name} reads it; dvc repro -s makes it")
            if not _is_run(path) and self._md5_of(target) != stage.deps[path]:
                raise UserError(f"{target}: not what dvc.lock says that {stage.name} read; dvc repro -s makes it")
        command = stage.new_arguments if is_new else stage.arguments
        job, path = (stage.new or "", stage.new_job) if is_new else (stage.old.decode(), stage.job)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        names = {renames.path(name) if is_new else name: target for name, target in links.items()}
        return TrialRun(code, command, folder, json.loads(job), path, not is_new, names)

    def _md5_of(self, target: Path) -> str:
        with self.lock:
            if target not in self.md5s:
                self.md5s[target] = md5_of(target)
            return self.md5s[target]

    def _train_old(self, trial: Trial) -> dict[str, Any]:
        began = time.monotonic()
        for steps in short_training.STEPS:
            run = self._trial_run(trial, self.old, self._folder(trial), False)
            run.prepare(steps)
            if run.train(short_training.seconds_to_first_save(steps)):
                break
        outcome = run.outcome(steps)
        shutil.rmtree(run.folder / "states")
        if not any(other.parent is trial for other in self.all):
            shutil.rmtree(run.locate(paths.RUNS))
        return {"steps": steps, "seconds": round(time.monotonic() - began, 1), "outcome": outcome}

    def difference(self, trial: Trial) -> str | None:
        """Train with the new code, killed and resumed once. Return how the outcome differs, or None if it is equal."""
        folder = CACHE / "new" / self._folder(trial).name
        try:
            old = self.old_outcome(trial)
            run, steps, then = self._trial_run(trial, self.new, folder, True), old["steps"], old["outcome"]
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


def _parent(stage: Stage) -> str | None:
    """Return the path of the run whose weights a stage starts from, or None."""
    return next(filter(_is_run, stage.deps), None)


def _out(stage: Stage) -> str:
    """Return the path of the run that a stage trains."""
    return next(filter(_is_run, stage.outs))


def _is_run(path: str) -> bool:
    return Path(path).is_relative_to(paths.RUNS)
