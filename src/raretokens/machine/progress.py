"""Lines of progress that a person can follow: update, loss, speed, utilisation, memory, time left."""

import time

from raretokens.machine.speed import Speed
from raretokens.training.observer import Observer


class Progress(Observer):
    """Prints at most one line every so many seconds, and one for each validation; counts tokens for the speed."""

    def __init__(self, name: str, seconds: float, speed: Speed, is_main: bool = True) -> None:
        self.name, self.seconds, self.speed, self.is_main = name, seconds, speed, is_main

    def begins(self, done: int, updates: int) -> None:
        self.done, self.updates = done, updates
        self.speed.begin()
        self.start = self.last = time.monotonic()

    def remarked(self, text: str) -> None:
        self._print(text)

    def updated(self, row: dict, tokens: int) -> None:
        self.speed.tokens += tokens
        update = row["update"]
        if row["valid_nll"] is not None:
            self._print(f"update {update}  validation NLL {row['valid_nll']:.4f}")
        now = time.monotonic()
        if now - self.last < self.seconds and update < self.updates:
            return
        self.last, left = now, (now - self.start) / max(update - self.done, 1) * (self.updates - update)
        self._print(
            f"update {update}/{self.updates}  loss {row['loss']:.3f}  nll {row['nll']:.3f}  "
            f"{speed_text(self.speed.facts())}  {clock(left)} left"
        )

    def _print(self, text: str) -> None:
        if self.is_main:
            print(f"{self.name}  {text}", flush=True)


def speed_text(facts: dict) -> str:
    """Speed, utilisation where it is known, and peak memory."""
    share = facts["model_flop_utilisation"]
    parts = [f"{facts['tokens_per_second']:,.0f} tokens/s", f"{facts['peak_memory_bytes'] / 1e9:.1f} GB"]
    return "  ".join(parts if share is None else [parts[0], f"MFU {share:.0%}", parts[1]])


def clock(seconds: float) -> str:
    """minutes:seconds, from one hour on hours:minutes:seconds."""
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    return f"{hours}:{minutes % 60:02d}:{int(seconds) % 60:02d}" if hours else f"{minutes}:{int(seconds) % 60:02d}"
