"""Effects, their intervals and their seeds as text: the one place where a number of a comparison is formatted."""

from collections.abc import Callable

from raretokens.evidence.comparison import Effect
from raretokens.evidence.intervals import Interval
from raretokens.evidence.verdict import Verdict
from raretokens.files import round_digits
from raretokens.papers.claim import EffectKind

DIGITS = 4  # significant digits of an effect in CSV files
FEW = {1: "one seed", 2: "two seeds"}


def number_text(value: float | None, digits: int = DIGITS) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def effect_text(kind: EffectKind, value: float | None) -> str:
    """A ratio as x 0.5, a difference with its sign; empty without a value."""
    if value is None:
        return ""
    value = round_digits(value, DIGITS)  # as CSV files have it
    if kind == "ratio" and 0.9 < value < 1.1:
        return f"x {value:.4g}"  # a small change is a few percent
    return f"x {value:.3g}" if kind == "ratio" else f"{value:+.3g}" if kind == "difference" else f"{value:.4g}"


def page_text(kind: EffectKind, value: float | None) -> str:
    """The same for a browser, with typographic signs and all digits of the CSV file."""
    text = number_text(value)
    if not text or kind == "value" or kind == "difference" and value == 0:
        return text
    if kind == "ratio":
        return f"×{text}"
    return text.replace("-", "−", 1) if text.startswith("-") else f"+{text}"


def _end(interval: Interval | None, end: int) -> str:
    return number_text(interval and interval[end])


EFFECT_COLUMNS: dict[str, Callable[[Effect], str]] = {  # of a CSV file
    "measured": lambda effect: number_text(effect.value),
    "seeds_low": lambda effect: _end(effect.seed_interval, 0),
    "seeds_high": lambda effect: _end(effect.seed_interval, 1),
    "test_low": lambda effect: _end(effect.test_interval, 0),
    "test_high": lambda effect: _end(effect.test_interval, 1),
}


def named_intervals(effect: Effect) -> dict[str, Interval]:
    """What an interval is over -> the interval."""
    over_seeds = "pooled seed variance" if effect.has_few_seeds else "seeds"
    both = {over_seeds: effect.seed_interval, "test set": effect.test_interval}
    return {name: interval for name, interval in both.items() if interval}


def few_seeds_text(verdict: Verdict) -> str:
    """How many seeds, of a verdict that rests on fewer than three."""
    return FEW[verdict.effect.seeds] if verdict.is_of_few_seeds else ""


def seeds_text(effect: Effect) -> str:
    """`, 3 seeds`; empty where nothing was measured, or of texts alone."""
    if effect.value is None or not effect.seeds:
        return ""
    return f", {effect.seeds} seed{'s' if effect.seeds != 1 else ''}"
