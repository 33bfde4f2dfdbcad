"""Speed of matrix products in bfloat16 and float32 on this processor, which its instruction set does not show.

The precision of a run is a parameter, because it changes the result. So the timing is reported and changes nothing.
"""

import time
from functools import cache

import torch

SLOWER = 1.2  # least time of bfloat16 divided by float32 that causes a warning
PRODUCTS = 4  # timed matrix products; the first one compiles


@cache
def bfloat16_to_float32() -> float | None:
    """Return the time of a product in bfloat16 divided by its time in float32; None where a GPU trains.

    Both are processor time, the minimum of several measurements, a tenth of a second in all.
    """
    if torch.cuda.is_available():
        return None
    return round(product_seconds(torch.bfloat16) / product_seconds(torch.float32), 2)


def product_seconds(dtype: torch.dtype) -> float:
    """Return the processor seconds of a product of 256 x 512 and 512 x 512 numbers."""
    left, right = torch.ones(256, 512, dtype=dtype), torch.ones(512, 512, dtype=dtype)
    seconds = []
    for _ in range(PRODUCTS):
        begun = time.process_time()
        left @ right
        seconds.append(time.process_time() - begun)
    return max(min(seconds), 1e-9)


def warning(precision: str) -> str | None:
    """Return a warning for a run in bfloat16 if products in bfloat16 are measurably slower on this processor."""
    ratio = bfloat16_to_float32() if precision == "bfloat16" else None
    if ratio is None or ratio < SLOWER:
        return None
    return f"warning: a product in bfloat16 takes {ratio:.2g} times as long as in float32 on this processor"
