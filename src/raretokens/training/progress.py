"""Lines of progress that a person can follow: update, loss, speed, time left."""

import sys
import time


class Progress:
    """Prints at most one line every few seconds; `tokens` is what the run has processed since it started or resumed."""

    def __init__(self, name: str, updates: int, done: int, seconds: float, speaks: bool = True) -> None:
        self.speaks = speaks
        self.name, self.updates, self.done, self.seconds = name, updates, done, seconds
        self.start = self.last = time.monotonic()
        self.tokens = 0

    def step(self, update: int, tokens: int, loss: float, nll: float) -> bool:
        """Count an update; true when it printed a line."""
        self.tokens += tokens
        now = time.monotonic()
        if now - self.last < self.seconds and update < self.updates:
            return False
        self.last, elapsed = now, now - self.start
        left = elapsed / max(update - self.done, 1) * (self.updates - update)
        self.say(
            f"update {update}/{self.updates}  loss {loss:.3f}  nll {nll:.3f}  "
            f"{self.tokens / elapsed:,.0f} tokens/s  {_minutes(left)} left"
        )
        return True

    def say(self, text: str) -> None:
        if self.speaks:
            print(f"{self.name}  {text}", flush=True, file=sys.stdout)


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
