"""What a run took over all stops: what is trained again after a kill counts twice, as it cost."""

import json
import time
from pathlib import Path

from raretokens.files import write_text
from raretokens.machine.speed import peak_memory
from raretokens.training.observer import Observer


class Spent(Observer):
    """Seconds and peak memory since the run's first update, kept in a file until it ends.

    file: where they are kept between two processes that train the run; every: seconds between two saves.
    """

    def __init__(self, file: Path, every: float, is_main: bool = True) -> None:
        self.file, self.every, self.is_main = file, every, is_main
        self.seconds, self.peak = 0.0, 0
        self.start = self.saved = time.monotonic()

    def begins(self, done: int, updates: int) -> None:
        """A run that starts anew, since its parameters changed, does not count what another took."""
        if done and self.file.is_file():
            kept = json.loads(self.file.read_text(encoding="utf-8"))
            self.seconds, self.peak = kept["seconds"], kept["peak_memory_bytes"]

    def updated(self, row: dict, tokens: int) -> None:
        if self.is_main and time.monotonic() - self.saved > self.every:
            write_text(self.file, json.dumps(self.facts()) + "\n")
            self.saved = time.monotonic()

    def facts(self) -> dict[str, float]:
        """Of all processes that trained the run so far, one after the other."""
        seconds = self.seconds + time.monotonic() - self.start
        return {"seconds": round(seconds, 1), "peak_memory_bytes": max(self.peak, peak_memory())}
