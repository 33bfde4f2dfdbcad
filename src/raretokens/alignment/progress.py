"""Lines of progress that a person can follow: what is done, its share of the work, time left."""

import time


class Progress:
    """Prints at most one line every `seconds`; None: never. total: pairs of positions of all passes together."""

    def __init__(self, name: str, total: int, seconds: float | None = None) -> None:
        self.name, self.total, self.seconds, self.done = name, total, seconds, 0
        self.start = self.last = time.monotonic()

    def step(self, more: int, doing: str) -> None:
        self.done += more
        now = time.monotonic()
        if self.seconds is None or now - self.last < self.seconds:
            return
        self.last, share = now, self.done / max(self.total, 1)
        left = (now - self.start) * (1 - share) / max(share, 1e-9)
        print(f"{self.name}  {doing}  {share:.1%}  {_clock(left)} left", flush=True)


def _clock(seconds: float) -> str:
    """minutes:seconds, from one hour on hours:minutes:seconds."""
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    return f"{hours}:{minutes % 60:02d}:{int(seconds) % 60:02d}" if hours else f"{minutes}:{int(seconds) % 60:02d}"
