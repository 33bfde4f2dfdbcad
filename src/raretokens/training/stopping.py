"""When validation no longer improves (Merity et al., 2018, Algorithm 1, in the form of the public code)."""

from collections.abc import Sequence


def is_worse(validated: Sequence[float], window: int) -> bool:
    """Whether the last NLL is above the best of all but the `window` before it; never while there are no others."""
    earlier = validated[: -window - 1]
    return bool(earlier) and validated[-1] > min(earlier)
