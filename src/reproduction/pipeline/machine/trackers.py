"""Trackers of accelerate, such as TensorBoard and Weights & Biases, to which the training log is sent."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from raretokens.errors import UserError
from reproduction.paths import MACHINE
from reproduction.training.recipe import Observer

PROJECT = "raretokens"
# Trackers that sort runs into projects: the option that names a run, and the option that names the folder of local files.
# The first argument of these trackers in accelerate is the project, and that of all others the run.
WITH_PROJECTS = {
    "wandb": ("name", "dir"),
    "swanlab": ("experiment_name", "logdir"),
    "trackio": ("name", None),
    "mlflow": ("run_name", None),
    "clearml": ("task_name", None),
}


class Trackers(Observer):
    """Sends the training log to the trackers of accelerate that machine.yaml names.

    Trackers that write files write to <folder>/<kind>/<run>. A run that starts over removes the previous content. After an
    interruption, the steps since the last save are sent again with identical values.

    Args:
        kinds: options of each tracker, by its name in accelerate. They replace the options that are set here.
    """

    def __init__(self, kinds: Mapping[str, Mapping[str, Any]], run: str, folder: Path) -> None:
        self.kinds, self.run, self.folder = kinds, run, folder
        self.trackers: list[GeneralTracker] = []

    def begins(self, done: int, steps: int) -> None:
        """Start the trackers. Raises UserError if one is not installed, or does not know an option."""
        for kind, options in self.kinds.items():
            folder = self.folder / kind / self.run
            if not done:
                shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                tracker = self._tracker(kind, {**_defaults(kind, self.run, folder, done > 0), **options})
                tracker.start()
            except ImportError:
                raise UserError(f"{MACHINE}: trackers: {kind} is not installed; pip install {kind}") from None
            except TypeError as error:
                raise UserError(
                    f"{MACHINE}: trackers: {kind}: options {dict(options)} are not allowed: {error}"
                ) from error
            self.trackers.append(tracker)

    def _tracker(self, kind: str, options: dict[str, Any]) -> GeneralTracker:
        known = LOGGER_TYPE_TO_CLASS[kind]
        name = options.pop("project", PROJECT) if kind in WITH_PROJECTS else self.run
        if known.requires_logging_directory:
            options.setdefault("logging_dir", str(self.folder / kind))
        return known(name, **options)

    def after_step(self, row: dict, tokens: int) -> None:
        values = {name: value for name, value in row.items() if name != "update" and value is not None}
        for tracker in self.trackers:
            tracker.log(values, step=row["update"])

    def close(self) -> None:
        """Flush and close the trackers."""
        for tracker in self.trackers:
            tracker.finish()


def _defaults(kind: str, run: str, folder: Path, is_resumed: bool) -> dict[str, Any]:
    """Return the options of a tracker that machine.yaml need not set."""
    if kind == "dvclive":  # It must neither save a DVC experiment nor write a dvc.yaml, since the pipeline has its own.
        return {"dir": str(folder), "resume": is_resumed, "save_dvc_exp": False, "dvcyaml": None}
    name, place = WITH_PROJECTS.get(kind, (None, None))
    return ({name: run} if name else {}) | ({place: str(folder.parent)} if place else {})
