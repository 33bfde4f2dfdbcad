"""Translation probabilities from expected counts by variational Bayes, rounded where sil-thot rounds."""

import numpy as np

from raretokens.alignment import c_library

ALPHA = 0.01  # of the Dirichlet prior of a source type's translations


def probabilities(links: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """exp(digamma(c + alpha) - digamma(sum of them)) for each target type of some source types, one after the other.

    links: expected counts c, float64; lengths: target types of each source type. Added in order: `bincount` is a loop.
    """
    row = np.repeat(np.arange(len(lengths)), lengths)
    links = links + ALPHA
    total = np.bincount(row, links, len(lengths))
    total[lengths == 0] = 1.0  # of types that are not there
    return c_library.exp(digamma(_stored(links)) - digamma(_stored(total))[row])


def _stored(x: np.ndarray) -> np.ndarray:
    """sil-thot keeps logarithms, in float32."""
    return c_library.exp(c_library.log(x).astype(np.float32).astype(np.float64))


def digamma(x: np.ndarray) -> np.ndarray:
    """For x > 0, by recurrence up to 7 and then an asymptotic series, as fast_align has it."""
    x, result = x.copy(), np.zeros_like(x)
    for _ in range(7):
        low = x < 7
        result -= low / x
        x += low
    x -= 0.5
    inverse = 1 / x
    square = inverse * inverse
    fourth = square * square
    series = c_library.log(x) + (1 / 24) * square - (7 / 960) * fourth
    return result + (series + (31 / 8064) * fourth * square - (127 / 30720) * fourth * fourth)
