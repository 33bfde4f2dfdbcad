"""Effects, their intervals and their seeds as text, and the columns of CSV files with verdicts.

Every number of a comparison is formatted here.
"""

from collections.abc import Callable

from raretokens.claims.comparison import Effect
from raretokens.claims.expectation import EffectKind
from raretokens.claims.intervals import Interval
from raretokens.claims.verdict import TESTED, Outcome, Verdict
from raretokens.files import round_digits

DIGITS = 4  # significant digits of an effect in CSV files
SIDE_DIGITS = 6  # significant digits of the numbers of the two sides
FEW = {1: "one seed", 2: "two seeds"}


def number_text(value: float | None, digits: int = DIGITS) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def effect_text(kind: EffectKind, value: float | None) -> str:
    """Format a ratio as x 0.5 and a difference with its sign. Empty without a value."""
    if value is None:
        return ""
    if kind == "ratio":  # rounded once, so that it agrees with change_text
        return f"x {value:.4g}" if 0.9 < value < 1.1 else f"x {value:.3g}"  # a small change is a few percent
    value = round_digits(value, DIGITS)  # the value in CSV files
    return f"{value:+.3g}" if kind == "difference" else f"{value:.4g}"


def interval_text(kind: EffectKind, interval: Interval | None) -> str:
    """Format an interval as 0.29 to 0.349, with the digits of the effect. Empty without an interval."""
    return f"{effect_text(kind, interval.low)} to {effect_text(kind, interval.high)}" if interval else ""


def with_interval(kind: EffectKind, value: float | None, interval: Interval | None) -> str:
    """Format an effect, followed by its interval in parentheses if there is one."""
    return f"{effect_text(kind, value)}{f' ({interval_text(kind, interval)})' if interval else ''}"


def change_text(kind: EffectKind, value: float) -> str:
    """Format a ratio as a change in percent with two digits (-68 %), and a difference with three digits."""
    if kind != "ratio":
        return f"{round_digits(value, DIGITS):+.3g}"  # of the value in CSV files
    percent = 100 * (value - 1)
    return f"{float(f'{percent:.2g}'):+g} %" if abs(percent) >= 0.05 else "0 %"


def finding_text(verdict: Verdict) -> str:
    """Format a measured effect as -68 % (95 % CI -71 % to -65 %; paper: -83 %)."""
    kind, interval = verdict.claim.effect, verdict.effect.main_interval
    if verdict.effect.value is None:
        return "an unknown amount (not measured)"
    of = "" if verdict.effect.interval else "of the test set alone: "  # with too few seeds for a seed variance
    inside = [f"95 % CI {of}{' to '.join(change_text(kind, end) for end in interval)}"] if interval else []
    inside += [f"paper: {change_text(kind, verdict.reported)}"] if verdict.reported is not None else []
    about = "; ".join(inside)
    return f"{change_text(kind, verdict.effect.value)}{f' ({about})' if about else ''}"


def _end(interval: Interval | None, end: int) -> str:
    return number_text(interval and interval[end])


EFFECT_COLUMNS: dict[str, Callable[[Effect], str]] = {  # column of a CSV file -> its text
    "measured": lambda effect: number_text(effect.value),
    "low": lambda effect: _end(effect.interval, 0),
    "high": lambda effect: _end(effect.interval, 1),
    "seeds_low": lambda effect: _end(effect.seed_interval, 0),
    "seeds_high": lambda effect: _end(effect.seed_interval, 1),
    "test_low": lambda effect: _end(effect.test_interval, 0),
    "test_high": lambda effect: _end(effect.test_interval, 1),
}


def named_intervals(effect: Effect) -> dict[str, Interval]:
    """Return the intervals by name: of the total variance, between seeds alone, and between test sets alone."""
    over_seeds = "pooled seed variance" if effect.has_few_seeds else "seeds"
    parts = {over_seeds: effect.seed_interval, "test set": effect.test_interval}
    found = {name: interval for name, interval in parts.items() if interval}
    return {"total": effect.interval, **found} if len(found) > 1 and effect.interval else found


def few_seeds_text(verdict: Verdict) -> str:
    """Return the number of seeds of a verdict that is decided with fewer than three seeds, else an empty text."""
    return FEW[verdict.effect.seeds] if verdict.is_of_few_seeds else ""


def lacks_seeds(verdict: Verdict) -> bool:
    """Whether a verdict is inconclusive because no seed variance is known, so that its interval is of the test set alone."""
    effect = verdict.effect
    return verdict.outcome == Outcome.INCONCLUSIVE and effect.has_few_seeds and effect.interval is None


def size_text(verdict: Verdict) -> str:
    """Return how the interval of a tested effect compares with the reported effect."""
    return verdict.size or "" if verdict.outcome in TESTED else ""


VERDICT_COLUMNS: dict[str, Callable[[Verdict], str]] = {
    "claim": lambda verdict: verdict.name,
    "paper": lambda verdict: verdict.claim.paper,
    "statement": lambda verdict: verdict.claim.statement,
    "metric": lambda verdict: verdict.claim.sides["left"].metric,
    "verdict": lambda verdict: verdict.outcome,
    "extent": lambda verdict: verdict.extent or "",
    "size": size_text,
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
