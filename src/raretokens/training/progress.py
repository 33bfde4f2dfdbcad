"""Lines of progress that a person can follow: update, loss, speed, utilisation, memory, time left."""

import sys
import time

from raretokens.training.speed import Speed


class Progress:
    """Prints at most one line every few seconds."""

    def __init__(self, name: str, updates: int, done: int, seconds: float, speed: Speed, speaks: bool = True) -> None:
        self.name, self.updates, self.done, self.seconds = name, updates, done, seconds
        self.speed, self.speaks = speed, speaks
        self.start = self.last = time.monotonic()

    def step(self, update: int, tokens: int, loss: float, nll: float) -> bool:
        """Count an update; true when it printed a line."""
        self.speed.tokens += tokens
        now = time.monotonic()
        if now - self.last < self.seconds and update < self.updates:
            return False
        self.last, elapsed = now, now - self.start
        left = elapsed / max(update - self.done, 1) * (self.updates - update)
        self.say(
            f"update {update}/{self.updates}  loss {loss:.3f}  nll {nll:.3f}  {spoken(self.speed.facts())}  "
            f"{clock(left)} left"
        )
        return True

    def say(self, text: str) -> None:
        if self.speaks:
            print(f"{self.name}  {text}", flush=True, file=sys.stdout)


def spoken(facts: dict) -> str:
    """Speed, utilisation where it is known, and peak memory."""
    share = facts["model_flop_utilisation"]
    parts = [f"{facts['tokens_per_second']:,.0f} tokens/s", f"{facts['peak_memory_bytes'] / 1e9:.1f} GB"]
    return "  ".join(parts if share is None else [parts[0], f"MFU {share:.0%}", parts[1]])


def clock(seconds: float) -> str:
    """minutes:seconds, from one hour on hours:minutes:seconds."""
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    return f"{hours}:{minutes % 60:02d}:{int(seconds) % 60:02d}" if hours else f"{minutes}:{int(seconds) % 60:02d}"
