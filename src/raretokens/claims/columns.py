"""The columns of a CSV file of verdicts."""

from collections.abc import Callable

from raretokens.claims.effect_text import EFFECT_COLUMNS, number_text
from raretokens.claims.verdict import TESTED, Verdict

SIDE_DIGITS = 6  # significant digits of the numbers of the two sides


def size_text(verdict: Verdict) -> str:
    """Return how the interval of a tested effect compares with the reported effect."""
    return verdict.size or "" if verdict.outcome in TESTED else ""


COLUMNS: dict[str, Callable[[Verdict], str]] = {
    "claim": lambda verdict: verdict.name,
    "paper": lambda verdict: verdict.claim.paper,
    "statement": lambda verdict: verdict.claim.statement,
    "metric": lambda verdict: verdict.claim.sides["left"].metric,
    "verdict": lambda verdict: verdict.outcome,
    "extent": lambda verdict: verdict.extent or "",
    "size": lambda verdict: size_text(verdict),
    "fraction": lambda verdict: number_text(verdict.fraction(verdict.effect.value), 3),
    "fraction_low": lambda verdict: number_text(verdict.fraction_interval and verdict.fraction_interval.low, 3),
    "fraction_high": lambda verdict: number_text(verdict.fraction_interval and verdict.fraction_interval.high, 3),
    "p": lambda verdict: number_text(verdict.p, 2),
    "q": lambda verdict: number_text(verdict.q, 2),
    "reason": lambda verdict: verdict.reason,
    "left": lambda verdict: number_text(verdict.effect.left, SIDE_DIGITS),
    "right": lambda verdict: number_text(verdict.effect.right, SIDE_DIGITS),
    **{name: (lambda verdict, show=show: show(verdict.effect)) for name, show in EFFECT_COLUMNS.items()},
    "reported": lambda verdict: number_text(verdict.reported),
    "kind": lambda verdict: verdict.claim.effect,
    "seeds": lambda verdict: str(verdict.effect.seeds),
    "runs": lambda verdict: " / ".join(verdict.runs),
}
