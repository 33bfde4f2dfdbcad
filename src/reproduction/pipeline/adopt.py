"""Adoption of a scale's outputs for changed code that is shown to be equivalent, so that nothing is trained again.

A stage of dvc.lock is a candidate if its job differs from the present job only in the code. The old and the new code both train
each distinct candidate run for a few steps. Data stages run again on this scale, and stages that use a trained model run again on
the demo (adoption_trials.py). The present jobs are written into dvc.lock only if all outputs are byte-identical. Files of score
stages may have further metrics (records.py).
"""

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from raretokens.errors import UserError
from raretokens.files import atomic_write
from reproduction import paths
from reproduction.paths import LOCK
from reproduction.pipeline import surroundings
from reproduction.pipeline.adoption_trials import CACHE, Replay, Trial, Trials
from reproduction.pipeline.lock_file import Stage, md5, present_jobs, read_stages
from reproduction.pipeline.records import ADDED, record_added, record_adoption, trained_table, without_covered
from reproduction.pipeline.short_training import Version

DATA = ("fetch", "own", "prepare", "similarity", "encode", "align", "baseline")  # stages without a model
NEW_PROCESS = """
import pickle, sys
from reproduction.pipeline.lock_file import present_jobs
pickle.dump(present_jobs(), sys.stdout.buffer)
"""


@dataclass(frozen=True)
class Adoption:
    """Adoption of the scale in the working folder. It prints a line for each finished comparison."""

    revision: str  # commit whose code made the outputs
    jobs: int  # number of parallel processes
    demo: Path  # folder of a small scale that the revision ran, with its weights

    def keep_old(self) -> bool:
        """Run all trials with the old code and keep the outcomes. Return whether none failed."""
        failed = []
        with checkout(self.revision) as old:
            found = Trials(self.revision, old, self._stages(old))

            def keep(trial: Trial) -> None:
                try:
                    print(f"{trial}: {found.old_outcome(trial)['seconds']} s")
                except UserError as error:
                    print(f"{trial}: {error}")
                    failed.append(trial)

            self._each(keep, found.all)
        return not failed

    def adopt(self) -> bool:
        """Adopt all candidates, or change nothing if one is refused. Return whether they were adopted.

        The stage `report` is no candidate, since `dvc repro` runs it in seconds.
        """
        trained_table()  # raises UserError before the comparison instead of after it
        with checkout(self.revision) as old:
            stages = self._stages(old)
            candidates = [stage for stage in stages if stage.new and not stage.is_current() and stage.kind != "report"]
            if not candidates:
                print(f"every stage of {LOCK} has the job that this code and these parameters make")
                return True
            refused, added = [], {}
            for stage in candidates:
                try:
                    self._check(stage)
                except UserError as error:
                    refused.append(f"{stage.name}: {error}")
            if not refused:
                refused = [*self._train(old, stages, candidates), *self._replay(old, stages, candidates, added)]
        for line in refused:
            print(f"refused: {line}")
        if refused:
            print(f"{len(refused)} stages refused: {LOCK} is as it was")
            return False
        check_unchanged(candidates)
        write(candidates)
        print(f"{len(candidates)} stages adopted")
        if added:
            record_added(added)
            print(f"added metrics, which {ADDED} records: {', '.join(without_covered(set().union(*added.values())))}")
        return True

    def _stages(self, old: Version) -> list[Stage]:
        folder = old.root / surroundings.git("rev-parse", "--show-prefix")
        old.run(["1", "jobs"], folder)
        return read_stages(LOCK, present_jobs(), folder)

    def _check(self, stage: Stage) -> None:
        """Raise UserError if a stage is refused before any comparison."""
        if not stage.is_former():
            raise UserError(f"{self.revision} makes another job than that in {LOCK}; allowed: the revision that ran it")
        if changed := stage.changed():
            raise UserError(f"its parameters differ: {changed}")
        for out, recorded in stage.outs.items():
            file = Path(out)
            if file.is_relative_to(paths.REPORTS) and not (file.is_file() and md5(file.read_bytes()) == recorded):
                raise UserError(f"{file}: not what {LOCK} says; dvc repro or git restore makes it so")

    def _train(self, old: Version, stages: list[Stage], candidates: list[Stage]) -> list[str]:
        """Compare the training of candidate runs, and return one refusal for each stage that differs."""
        found, names = Trials(self.revision, old, stages), {stage.name for stage in candidates}
        refused = []

        def compare(trial: Trial) -> None:
            began, why = time.monotonic(), found.difference(trial)
            took = time.monotonic() - began
            steps = "" if why else found.old_outcome(trial)["steps"]
            print(f"{trial}: {why or f'equal, {steps} steps, {took:.0f} s'}")
            refused.extend(f"{stage.name}: {why}" for stage in trial.stages if why)

        self._each(compare, [trial for trial in found.all if names & {stage.name for stage in trial.stages}])
        return refused

    def _replay(self, old: Version, stages: list[Stage], candidates: list[Stage], added: dict[str, set[str]]) -> list[str]:
        """Run other candidates again and return the refusals. Data stages run on this scale, model stages on the demo.

        added: receives the metrics that only the new code writes, by the kind of their stage.
        """
        data = [stage for stage in candidates if stage.kind in DATA]
        differing = self._compare(Replay(self.revision, Path(), stages, data, CACHE / "replay"))
        refused = [f"{stage.name}: {why}" for stage, why in differing]
        kinds = {stage.kind for stage in candidates if stage.kind not in DATA and not stage.is_training}
        if not kinds:
            return refused
        old.run(["1", "jobs"], old.root)
        demo = read_stages(self.demo / LOCK, present_jobs(surroundings.root() / paths.PARAMETERS), old.root)
        demo = [stage for stage in demo if stage.new and stage.is_former() and not stage.changed()]
        distinct = {stage.recipe(json.loads(stage.old)["job"]): stage for stage in reversed(demo) if stage.kind in kinds}
        selected = [*distinct.values()][::-1]
        differing = self._compare(Replay(self.revision, self.demo, demo, selected, CACHE / "demo", added=added))
        missing = kinds - {stage.kind for stage in selected}
        bad = {kind: f"{self.demo}: no {kind} that {self.revision} ran" for kind in missing}
        bad |= {stage.kind: f"{stage.name}: {why}" for stage, why in differing}
        return refused + [f"{stage.name}: in the demo, {bad[stage.kind]}" for stage in candidates if stage.kind in bad]

    def _compare(self, replay: Replay) -> list[tuple[Stage, str]]:
        """Run the selected stages again and return those that differ, and how."""
        self._each(lambda stage: print(f"{stage.name}: {replay.difference(stage) or 'equal'}"), replay.selected)
        shutil.rmtree(replay.folder, ignore_errors=True)
        return [(stage, why) for stage in replay.selected if (why := replay.found[stage.name])]

    def _each(self, function: Callable[[Any], None], selected: list[Any]) -> None:
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                list(pool.map(function, selected))
            except BaseException:  # such as SIGTERM, which the trainings of the threads do not receive
                pool.shutdown(wait=False, cancel_futures=True)
                for process in psutil.Process().children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                raise


def check_unchanged(candidates: list[Stage]) -> None:
    """Raise UserError if the code, the parameters or dvc.lock were edited since the candidates were read."""
    done = subprocess.run([sys.executable, "-c", NEW_PROCESS], capture_output=True, check=False)
    now = {stage.name: stage for stage in read_stages(LOCK, {} if done.returncode else pickle.loads(done.stdout))}
    changed = [stage.name for stage in candidates if now.get(stage.name) != replace(stage, old=b"")]
    if changed:
        raise UserError(f"code, parameters or {LOCK} changed during the comparison: {', '.join(changed[:3])}; start again")


def write(adopted: list[Stage]) -> None:
    """Write the present jobs of stages into dvc.lock, and before that the adopting revision into trained.csv."""
    from dvc.utils.serialize import modify_yaml

    with atomic_write(LOCK) as part:
        shutil.copy(LOCK, part)
        with modify_yaml(part) as tree:
            for stage in adopted:
                (job,) = (dep for dep in tree["stages"][stage.name]["deps"] if dep["path"] == stage.job)
                job.update(md5=md5(stage.new), size=len(stage.new))
        runs = {tuple(stage.arguments[2:]) for stage in adopted if stage.is_training}
        record_adoption(runs, surroundings.revision() or "", part)


@contextmanager
def checkout(revision: str) -> Iterator[Version]:
    """Yield a revision of this code, in a temporary git worktree."""
    folder = (CACHE / "code" / f"{revision}-{os.getpid()}").absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.iterdir():  # by processes that were killed
        if not psutil.pid_exists(int(left.name.rpartition("-")[2])):
            with suppress(UserError):
                surroundings.git("worktree", "remove", "-ff", str(left))
    surroundings.git("worktree", "add", "--detach", str(folder), revision)
    try:
        yield Version(folder)
    finally:
        surroundings.git("worktree", "remove", "--force", str(folder))


def verified_at() -> str:
    """Return the last commit that changed dvc.lock of the working folder; HEAD if it is not in git."""
    return surroundings.git("ls-files", str(LOCK)) and surroundings.git("log", "-1", "--format=%H", "--", str(LOCK)) or "HEAD"
