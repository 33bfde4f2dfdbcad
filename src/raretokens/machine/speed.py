"""How fast a run trains and what it takes: tokens a second, model-FLOP utilisation, peak memory."""

import resource
import time
from pathlib import Path

import torch

from raretokens.machine.cards import peak_flops

STATUS = Path("/proc/self/status")


def peak_memory() -> int:
    """Bytes that this process took at most so far: of the GPU by tensors, without a GPU of the machine's memory."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    if STATUS.exists():  # Linux, where getrusage counts what the parent held when it started this process
        return next(int(line.split()[1]) * 1024 for line in STATUS.read_text().split("\n") if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


class Speed:
    """Counts the tokens of a run since it started or resumed."""

    def __init__(self, flops_per_token: float, processes: int) -> None:
        card = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
        self.flops_per_token, self.processes, self.peak = flops_per_token, processes, peak_flops(card)
        self.begin()

    def begin(self) -> None:
        self.start, self.tokens = time.monotonic(), 0

    def facts(self) -> dict[str, float | None]:
        """Of all processes together, memory of this one; utilisation is None where the card's peak is not known."""
        rate = self.tokens / max(time.monotonic() - self.start, 1e-9)
        share = None if self.peak is None else rate * self.flops_per_token / (self.peak * self.processes)
        return {
            "processes": self.processes,
            "tokens_per_second": round(rate, 1),
            "model_flops_per_token": self.flops_per_token,
            "model_flop_utilisation": None if share is None else round(share, 4),
            "peak_memory_bytes": peak_memory(),
        }
