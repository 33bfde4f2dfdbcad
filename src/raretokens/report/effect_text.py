"""Effects, their intervals and their seeds as text: the one place where a number of a comparison is formatted."""

from raretokens.evidence.intervals import Interval
from raretokens.evidence.verdict import Verdict, has_few_seeds
from raretokens.files import rounded
from raretokens.papers.claim import EffectKind

DIGITS = 4  # significant digits of an effect in CSV files
FEW = {1: "one seed", 2: "two seeds"}


def number_text(value: float | None, digits: int = DIGITS) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def effect_text(kind: EffectKind, value: float | None) -> str:
    """A ratio as x 0.5, a difference with its sign; empty without a value."""
    if value is None:
        return ""
    value = rounded(value, DIGITS)  # as CSV files have it
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


def interval_columns(seed_interval: Interval | None, test_interval: Interval | None) -> dict[str, str]:
    """Both intervals as columns of a CSV file."""
    return {
        f"{name}_{end}": number_text(value)
        for name, interval in (("seeds", seed_interval), ("test", test_interval))
        for end, value in zip(("low", "high"), interval or (None, None), strict=True)
    }


def named_intervals(verdict: Verdict) -> dict[str, Interval]:
    """What an interval is over -> the interval."""
    over_seeds = "lent seeds" if has_few_seeds(verdict.seeds) else "seeds"
    both = {over_seeds: verdict.seed_interval, "test set": verdict.test_interval}
    return {name: interval for name, interval in both.items() if interval}


def few_seeds_text(verdict: Verdict) -> str:
    """How many seeds, of a verdict that rests on fewer than three."""
    return FEW[verdict.seeds] if verdict.is_of_few_seeds else ""


def seeds_text(verdict: Verdict) -> str:
    """`, 3 seeds`; empty where nothing was measured, or of texts alone."""
    if verdict.effect is None or not verdict.seeds:
        return ""
    return f", {verdict.seeds} seed{'s' if verdict.seeds != 1 else ''}"
