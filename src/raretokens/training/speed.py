"""How fast a run trains and what it takes: tokens a second, model-FLOP utilisation, peak memory."""

import resource
import sys
import time
from fnmatch import fnmatchcase

import torch

# Dense bfloat16 operations a second with float32 sums, from the makers' data sheets, by torch's name of the card.
PEAKS = {
    "*H100 PCIe*": 756e12,
    "*H100 NVL*": 835e12,
    "*H100*": 989e12,
    "*H200*": 989e12,  # and GH200
    "*A100*": 312e12,
    "*L40S*": 362e12,
    "*RTX A6000*": 155e12,
    "*GeForce RTX 4090": 165e12,
    "*V100*": 125e12,  # float16: it has no bfloat16
}


def peak_flops(card: str) -> float | None:
    """Operations a second of a card; None where its data sheet is not in the table."""
    return next((peak for name, peak in PEAKS.items() if fnmatchcase(card, name)), None)


def peak_memory() -> int:
    """Bytes that this process took at most so far: of the GPU by tensors, without a GPU of the machine's memory."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return resident if sys.platform == "darwin" else resident * 1024


class Speed:
    """Counts the tokens of a run since it started or resumed."""

    def __init__(self, flops_per_token: float, processes: int) -> None:
        card = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
        self.flops_per_token, self.processes, self.peak = flops_per_token, processes, peak_flops(card)
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
