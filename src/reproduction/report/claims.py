"""Verdicts as CSV and in words: all claims, their counts, and the main claims."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np
from scipy.special import gammaln

from raretokens import csv_files
from raretokens.claims.comparison import Effect
from raretokens.claims.effect_text import (
    EFFECT_COLUMNS,
    FEW,
    SIDE_DIGITS,
    VERDICT_COLUMNS,
    change_text,
    effect_text,
    few_seeds_text,
    lacks_seeds,
    number_text,
    size_text,
)
from raretokens.claims.expectation import EffectKind
from raretokens.claims.verdict import TESTED, Extent, Outcome, Size, Verdict
from raretokens.files import round_digits
from reproduction.papers.claim import OWN
from reproduction.papers.declarations import Declarations
from reproduction.papers.verdicts import AGAIN, HARDLY, LATER, YES, counted_as
from reproduction.report.markdown import table

ON_ITS_SIDE = "the interval lies on the side of the threshold of the claim, or inside its margin of no change"
MEANINGS = {  # label of a verdict -> its meaning, in the order of the pages
    f"{Outcome.REPRODUCED} in {Extent.SIZE}": f"{ON_ITS_SIDE}, and the measured effect is at least half of the reported one",
    f"{Outcome.REPRODUCED} in {Extent.DIRECTION}": (
        f"{ON_ITS_SIDE}, and the measured effect is less than half of the reported one or has none to compare with"
    ),
    Outcome.INCONCLUSIVE: (
        "the interval contains the threshold or has no width, no seed variance is known, or q of a main claim exceeds 0.05"
    ),
    Outcome.NOT_RUN: "a run or a metric is missing",
    Outcome.NOT_TESTABLE: (
        "a precondition of the claim is not met by the runs, the effect has its value by construction or is 0 on every seed, or "
        "nothing is decided and the setting is unlike the paper's"
    ),
    Outcome.CONTRADICTED: "the interval lies on the other side of the threshold, or outside the margin of no change",
}

OTHERS = {  # value of the column `counted` -> line of other-verdicts.csv
    AGAIN: "conclusions on an effect that is counted already",
    HARDLY: "conclusions that can hardly fail",
    LATER: "conclusions of later papers",
    **{kind: f"{kind}s" for kind in OWN.values()},
}


def cv_star(values: Sequence[float]) -> float | None:
    """Return CV*, the coefficient of variation in percent, corrected for few values.

    CV* = (1 + 1 / (4 n)) s / (c4 m), for the mean m and the standard deviation s of n values. Dividing by c4 makes s unbiased.
    None with fewer than two values, or if one is not positive, because the coefficient needs a scale that begins at zero.

    Source: Belz, Popovic and Mille 2022, section 3.
    """
    n = len(values)
    if n < 2 or not all(math.isfinite(value) and value > 0 for value in values):
        return None
    c4 = math.sqrt(2 / (n - 1)) * math.exp(gammaln(n / 2) - gammaln((n - 1) / 2))
    return float(100 * (1 + 1 / (4 * n)) * np.std(values, ddof=1) / c4 / np.mean(values))


def _cv_star(reported: float | None, measured: float | None) -> str:
    """Return CV* of a reported and a measured number, as claims.csv has them."""
    if reported is None or measured is None:
        return ""
    return number_text(cv_star([reported, round_digits(measured, SIDE_DIGITS)]))


def label(verdict: Verdict) -> str:
    """Return the outcome, and for a reproduced claim its extent."""
    return f"{verdict.outcome} in {verdict.extent}" if verdict.extent else str(verdict.outcome)


def _sign(verdict: Verdict) -> str:
    """Return whether the effect has the reported sign: same, opposite, or empty without a reported sign or an effect."""
    fraction = verdict.fraction(verdict.effect.value)
    return "" if not fraction else "same" if fraction > 0 else "opposite"


OF_PAPERS: dict[str, Callable[[Verdict], str]] = {  # columns that only claims of papers have
    "place": lambda verdict: verdict.claim.place,
    "role": lambda verdict: verdict.claim.kind,
    "family": lambda verdict: verdict.family,
    "counted": counted_as,
    "counted_with": lambda verdict: verdict.counted_with,
    "hardly_fails": lambda verdict: verdict.claim.hardly_fails or "",
    "setting": lambda verdict: verdict.setting,
    "unit_length": lambda verdict: verdict.unit_length or "",
    "reported_left": lambda verdict: number_text(verdict.reported_left, SIDE_DIGITS),
    "reported_right": lambda verdict: number_text(verdict.reported_right, SIDE_DIGITS),
    "cv_star_left": lambda verdict: _cv_star(verdict.reported_left, verdict.effect.left),
    "cv_star_right": lambda verdict: _cv_star(verdict.reported_right, verdict.effect.right),
    "sign": _sign,
    "note": lambda verdict: verdict.claim.unreported or "",
}
ORDER = (  # of the columns of claims.csv
    "claim", "paper", "place", "statement", "metric", "role", "verdict", "extent", "size", "fraction", "fraction_low",
    "fraction_high", "p", "q", "family", "counted", "counted_with", "hardly_fails", "setting", "unit_length", "reason", "left",
    "right", *EFFECT_COLUMNS, "reported", "reported_left", "reported_right", "cv_star_left", "cv_star_right", "sign",
    "kind", "seeds", "runs", "note",
)  # fmt: skip
COLUMNS = {name: (VERDICT_COLUMNS | OF_PAPERS)[name] for name in ORDER}


def to_csv(verdicts: list[Verdict]) -> str:
    rows = ([show(verdict) for show in COLUMNS.values()] for verdict in verdicts)
    return csv_files.to_csv(rows, list(COLUMNS))


def in_words(verdicts: list[Verdict], declared: Declarations) -> str:
    """Return sentences with the counts of the conclusions of the reproduced papers, and of the claims that are excluded."""
    own = _counted(verdicts)
    tested = sum(one.outcome in TESTED for one in own)
    of = Counter(one.outcome for one in own)
    count = {outcome: count_text(of[outcome], outcome) for outcome in Outcome}
    few = sum(one.outcome == Outcome.REPRODUCED and one.is_of_few_seeds for one in own)
    excluded = Counter(map(counted_as, verdicts))
    return (
        f"The {len(declared.counted_papers)} papers draw {len(own)} conclusions that can fail, where "
        f"conclusions on one effect count once, with the weakest verdict. Of these, {tested} could be tested. "
        f"{count[Outcome.REPRODUCED]}, {count[Outcome.CONTRADICTED]} and {count[Outcome.INCONCLUSIVE]}. "
        f"{count[Outcome.NOT_TESTABLE]} with these models, and {count[Outcome.NOT_RUN]}. "
        f"{sizes_in_words(own)}\n"
        + (f"Reproduced conclusions with fewer than three seeds: {few}. " if few else "")
        + _inconclusive_in_words(own)
        + f"The counts exclude {excluded[HARDLY]} {OTHERS[HARDLY]}, and {excluded[AGAIN]} {OTHERS[AGAIN]}. They exclude "
        f"{sum(excluded[kind] for kind in OWN.values())} of our own interpretations, controls and experiments, and "
        f"{excluded[LATER]} {OTHERS[LATER]}."
    )


def _counted(verdicts: list[Verdict]) -> list[Verdict]:
    return [one for one in verdicts if counted_as(one) == YES]


def _inconclusive_in_words(verdicts: list[Verdict]) -> str:
    """Say how many inconclusive conclusions more seeds could decide, and how many exclude the reported effect."""
    inconclusive = [one for one in verdicts if one.outcome == Outcome.INCONCLUSIVE]
    few = sum(one.effect.has_few_seeds for one in inconclusive)
    excluded = (Size.SMALLER, Size.LARGER, Size.OPPOSITE)
    small = sum(one.size in excluded and not one.effect.has_few_seeds for one in inconclusive)
    if not inconclusive:
        return ""
    others = len(inconclusive) - few
    excluded = f"The intervals of {small or 'none'} of the other {others} exclude the reported effect. " if others else ""
    return (
        f"Of the {len(inconclusive)} inconclusive conclusions, {few or 'none'} {'has' if few == 1 else 'have'} fewer than three "
        f"seeds. {excluded}"
    )


def count_text(count: int, outcome: Outcome) -> str:
    """Return a count with its verb: 1 is reproduced, 2 are reproduced."""
    verbs = ("was", "were") if outcome == Outcome.NOT_RUN else ("is", "are")
    return f"{count} {verbs[count != 1]} {outcome}"


def sizes_in_words(verdicts: list[Verdict]) -> str:
    """Describe how large the effects of tested conclusions are, compared with the reported effects."""
    tested = [one for one in verdicts if one.outcome in TESTED]
    reproduced = [one for one in tested if one.extent]
    in_size = sum(one.extent == Extent.SIZE for one in reproduced)
    sized = [(one, fraction) for one in tested if (fraction := one.fraction(one.effect.value)) is not None]
    if not sized:
        return "No tested conclusion has a reported effect to compare with."
    opposite = sum(fraction < 0 for _, fraction in sized)
    included = sum(one.size == Size.INCLUDED for one, _ in sized)
    own = [fraction for one, fraction in sized if one.extent]
    extents = (
        f"Of the {len(reproduced)} reproduced conclusions, {in_size} agree in direction and size, because the measured effect "
        f"is at least half of the reported one. The other {len(reproduced) - in_size} agree in direction only, because the "
        f"effect is smaller or the paper reports none. "
    )
    of_own = f" Over the {len(own)} that are reproduced, the median is {median(own):.2g}." if own else ""
    return (
        f"{extents if reproduced else ''}Of the tested conclusions, {len(sized)} have a reported effect to compare with. "
        f"Over all of these, the median measured effect is {median(fraction for _, fraction in sized):.2g} of the reported one, "
        f"and {opposite} have the opposite sign.{of_own} The intervals of {included or 'none'} of the {len(sized)} include "
        f"the reported effect."
    )


def medians_in_words(verdicts: list[Verdict]) -> str:
    """Return sentences for README with the median measured effect over the tested conclusions, over those of each paper, and
    over the reproduced ones.
    """
    tested = [one for one in _counted(verdicts) if one.outcome in TESTED]
    sized = [(one, fraction) for one in tested if (fraction := one.fraction(one.effect.value)) is not None]
    own = [fraction for one, fraction in sized if one.extent]
    if not own:
        return "No reproduced conclusion has a reported effect to compare with.\n"
    opposite = [one.outcome for one, fraction in sized if fraction < 0]
    by_paper: dict[str, list[float]] = {}
    for one, fraction in sized:
        by_paper.setdefault(one.claim.paper, []).append(fraction)
    medians = ", ".join(f"{paper} {median(fractions):.2g}" for paper, fractions in by_paper.items())
    return (
        f"Of the {len(tested)} tested conclusions, {len(sized)} have a reported effect. Measured divided by reported, their "
        f"median is {median(fraction for _, fraction in sized):.2g} ({medians}). {len(opposite)} have the opposite sign: "
        f"{opposite.count(Outcome.CONTRADICTED)} contradicted and {opposite.count(Outcome.INCONCLUSIVE)} inconclusive ones. "
        f"The {len(own)} reproduced ones have a median of {median(own):.2g}.\n"
    )


def seeds_in_words(verdicts: list[Verdict]) -> str:
    """Say why main claims with too few seeds are inconclusive, and what would decide them. Empty if there are none."""
    tested = [one for one in verdicts if one.claim.main and one.outcome in TESTED]
    few = sum(map(lacks_seeds, tested))
    if not few:
        return ""
    return (
        f"Of the {len(tested)} main conclusions that could be tested, {few} {'has' if few == 1 else 'have'} fewer than three "
        f"seeds, and no other runs show how much seeds differ. {'Its interval is' if few == 1 else 'Their intervals are'} of the "
        "test set alone. The verdict is inconclusive, because "
        "another seed alone could change the effect. Runs with `seed: 2` and `seed: 3` give both intervals and verdicts."
    )


def main_claims(verdicts: list[Verdict]) -> str:
    columns = ["conclusion", "paper", "reported", "measured", "95 % interval", "q", "verdict", "size", "unit_length", "card"]
    rows = ((*_main_cells(one), f"papers/{card_of(one)}") for one in verdicts if one.claim.main)
    return csv_files.to_csv(rows, columns)


def main_table(verdicts: list[Verdict], folder: str = "") -> str:
    """Return the main claims as a Markdown table, each with a link to its card. `folder`: path of the pages of the papers."""
    head = ["conclusion", "reported", "measured", "95 % interval", "verdict"]
    rows = ((one, _main_cells(one)) for one in verdicts if one.claim.main)
    return table(head, ((f"[{cells[0]}]({folder}{card_of(one)})", *cells[2:5], cells[6]) for one, cells in rows)) + "\n"


def card_of(verdict: Verdict) -> str:
    """Return the address of the card of a claim of a reproduced paper, in the folder of the pages of the papers."""
    return f"{verdict.claim.paper.lower()}.md#claim-{verdict.name}"


def headline(verdicts: list[Verdict]) -> dict[str, float]:
    """Return the effects of the main claims that were measured, for DVC's metrics. A ratio is a change in percent.

    A name has the unit and the reported effect, such as "AGG: rare-token perplexity [%; paper -83]".
    """
    return {
        f"{one.claim.main} [{_reported_and_unit(one)}]": _change(one.claim.effect, one.effect.value)
        for one in verdicts
        if one.claim.main and one.effect.value is not None
    }


def _change(kind: EffectKind, value: float) -> float:
    return float(f"{100 * (value - 1):.4g}") if kind == "ratio" else round_digits(value, 4)


def _reported_and_unit(verdict: Verdict) -> str:
    kind, reported = verdict.claim.effect, verdict.reported
    paper = "no number in the paper" if reported is None else f"paper {change_text(kind, reported).removesuffix(' %')}"
    return f"%; {paper}" if kind == "ratio" else paper


def change_cell(kind: EffectKind, value: float | None) -> str:
    """Return an effect with its sign. A ratio is a change in percent."""
    return change_text(kind, value) if kind == "ratio" and value is not None else effect_text(kind, value)


def interval_cell(kind: EffectKind, effect: Effect) -> str:
    """Return the 95 % interval of an effect, and whether it has no seed variance."""
    ends = " to ".join(change_cell(kind, end) for end in effect.main_interval or ())
    return f"{ends} (test set alone)" if ends and not effect.interval else ends


def _main_cells(verdict: Verdict) -> tuple[str, ...]:
    """Return the cells of a main claim. Ratios are changes in percent, as in the findings of README."""
    claim, kind, effect = verdict.claim, verdict.claim.effect, verdict.effect
    few = f"{FEW[effect.seeds]} without a seed variance" if lacks_seeds(verdict) else few_seeds_text(verdict)
    uncounted = {YES: "", AGAIN: f"counted {AGAIN}"}.get(counted := counted_as(verdict), counted)
    marks = [verdict.extent, uncounted, few]
    outcome = ", ".join([verdict.outcome, *filter(None, marks)])
    numbers = (change_cell(kind, verdict.reported), change_cell(kind, effect.value), interval_cell(kind, effect))
    ends = (number_text(verdict.q, 2), outcome, size_text(verdict), verdict.unit_length or "")
    return claim.statement, f"{claim.paper} {claim.place}", *numbers, *ends


def verdict_counts(verdicts: list[Verdict]) -> str:
    """Return the counts of conclusions as CSV, with a line for each reproduced paper and a line for the total."""
    return _counts(_counted(verdicts), lambda one: one.claim.paper)


def other_counts(verdicts: list[Verdict]) -> str:
    """Return the counts of all other claims as CSV, by the column `counted`: our own, and the conclusions that no count has."""
    return _counts([one for one in verdicts if counted_as(one) != YES], lambda one: OTHERS[counted_as(one)])


def _counts(verdicts: list[Verdict], row_of: Callable[[Verdict], str]) -> str:
    """Return a line for each row and for all, with the counts of the outcomes; the reproduced ones also by extent."""
    columns = [Outcome.REPRODUCED, *Extent, *list(reversed(Outcome))[1:]]
    rows = {name: [one for one in verdicts if row_of(one) == name] for name in dict.fromkeys(map(row_of, verdicts))}
    lines = [
        [name, *(str(sum(column in (one.outcome, one.extent) for one in own)) for column in columns), str(len(own))]
        for name, own in [*rows.items(), ("all", verdicts)]
    ]
    return csv_files.to_csv(lines, ["paper", *columns, "claims"])
