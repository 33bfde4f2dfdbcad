"""The training log, also sent to the trackers of accelerate (TensorBoard, DVCLive) that machine.yaml names."""

from collections.abc import Sequence
from pathlib import Path

from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from raretokens.errors import UserError
from raretokens.training.observer import Observer


class Trackers(Observer):
    """One of each kind; they write below the folder."""

    def __init__(self, kinds: Sequence[str], run: str, folder: Path) -> None:
        self.kinds, self.run, self.folder = kinds, run, folder
        self.trackers: list[GeneralTracker] = []

    def begins(self, done: int, updates: int) -> None:
        options = {
            "tensorboard": {"logging_dir": str(self.folder)},
            "dvclive": {"dir": str(self.folder / self.run), "save_dvc_exp": False, "dvcyaml": None, "resume": done > 0},
        }
        for kind in self.kinds:
            try:
                self.trackers.append(LOGGER_TYPE_TO_CLASS[kind](self.run, **options[kind]))
                self.trackers[-1].start()
            except ImportError:
                raise UserError(f"machine.yaml: trackers: {kind} is not installed; pip install {kind}") from None

    def updated(self, row: dict, tokens: int) -> None:
        values = {name: value for name, value in row.items() if name != "update" and value is not None}
        for tracker in self.trackers:
            tracker.log(values, step=row["update"])
