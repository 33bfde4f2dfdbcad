"""The training log, also sent to the trackers of accelerate (TensorBoard, DVCLive) that machine.yaml names."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from raretokens.errors import UserError
from raretokens.paths import MACHINE
from raretokens.training.observer import Observer


class Trackers(Observer):
    """One of each kind; they write to <folder>/<kind>/<run>, and a run that begins anew takes away what was there.

    After a stop the updates since the last save are sent twice, with the same numbers.
    """

    def __init__(self, kinds: Sequence[str], run: str, folder: Path) -> None:
        self.kinds, self.run, self.folder = kinds, run, folder
        self.trackers: list[GeneralTracker] = []

    def begins(self, done: int, updates: int) -> None:
        """Raises UserError where a tracker is not installed."""
        for kind in self.kinds:
            place = self.folder / kind / self.run
            if not done:
                shutil.rmtree(place, ignore_errors=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            tracker = LOGGER_TYPE_TO_CLASS[kind](self.run, **_options(kind, place, done > 0))
            try:
                tracker.start()
            except ImportError:
                raise UserError(f"{MACHINE}: trackers: {kind} is not installed; pip install {kind}") from None
            self.trackers.append(tracker)

    def updated(self, row: dict, tokens: int) -> None:
        values = {name: value for name, value in row.items() if name != "update" and value is not None}
        for tracker in self.trackers:
            tracker.log(values, step=row["update"])

    def close(self) -> None:
        """Write what they still hold."""
        for tracker in self.trackers:
            tracker.finish()


def _options(kind: str, place: Path, is_resumed: bool) -> dict[str, Any]:
    if kind == "tensorboard":
        return {"logging_dir": str(place.parent)}
    # It shall neither make an experiment of the run nor touch dvc.yaml: the pipeline has its own.
    return {"dir": str(place), "resume": is_resumed, "save_dvc_exp": False, "dvcyaml": None}
