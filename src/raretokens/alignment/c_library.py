"""exp, log and pow of the C library, as sil-thot has them.

NumPy's own differ in the last bit where a processor has AVX-512, so that links would depend on the machine: of 20,000
German-English pairs one link of 454,156 came out another way.
"""

import math

import numpy as np
from scipy import special

_power = np.frompyfunc(math.pow, 2, 1)


def exp(x: np.ndarray) -> np.ndarray:
    """float64, equal to math.exp; 14 ns an element."""
    return special.inv_boxcox(x, 0.0)  # the ufunc whose inner loop is the C library's exp


def log(x: np.ndarray) -> np.ndarray:
    """float64, equal to math.log."""
    return special.xlogy(1.0, x)


def power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """float64, equal to math.pow; 0.2 microseconds an element."""
    return _power(base, exponent).astype(np.float64)
