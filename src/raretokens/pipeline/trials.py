"""Trials: short trainings of each distinct run by the former code, whose outcome is kept, and by the present code."""

import hashlib
import json
import shutil
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from raretokens import paths
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.pipeline import renames, short_training
from raretokens.pipeline.context import root
from raretokens.pipeline.lock_file import Stage, md5_of
from raretokens.pipeline.short_training import TrialRun, Version

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
            target = Path(renames.path(path))
            if path == parent:
                self.old_outcome(trial.parent)
                target = self._folder(trial.parent) / _run_in(trial.parent.stage.outs)
            elif not target.exists():
                raise UserError(f"{target}: missing, and {stage.name} reads it; dvc repro -s makes it")
            elif self.md5_of(target) != stage.deps[path]:
                raise UserError(f"{target}: not what dvc.lock says that {stage.name} read; dvc repro -s makes it")
            links[path if is_old else renames.path(path)] = target
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if is_old:
            return TrialRun(self.old, True, stage.arguments, folder, json.loads(stage.old), stage.job, links)
        return TrialRun(PRESENT, False, stage.new_arguments, folder, json.loads(stage.new), stage.new_job, links)

    def _train_old(self, trial: Trial) -> dict[str, Any]:
        began = time.monotonic()
        for steps in short_training.STEPS:
            run = self._trial_run(trial, True, self._folder(trial))
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


def _run_in(listed: Iterable[str]) -> str | None:
    """Return the path of a trained run among the dependencies or outputs of a stage, or None."""
    return next((path for path in listed if Path(renames.path(path)).is_relative_to(paths.RUNS)), None)
