"""A claim on the site: its verdict as short texts, and the runs and numbers behind the verdict."""

from dataclasses import dataclass

from raretokens.evidence.comparison import Comparison
from raretokens.evidence.verdict import DECIDED, Verdict
from raretokens.papers.claim import Claim, Side
from raretokens.report.effect_text import few_seeds_text, named_intervals, number_text, page_text
from raretokens.report.paper_pages import EXPLAINED, explanation
from raretokens.site.scale import Scale

BY_RANK = ("singular_values", "rank_frequency")  # series over ranks instead of training steps
SIDES = {"left": "First", "right": "Second", "control.left": "Control, first", "control.right": "Control, second"}


@dataclass(frozen=True)
class Evidence:
    """One number of a comparison: the metric, and its value in each run."""

    label: str
    title: str
    metric: str
    moment: str
    runs: list[str]  # runs that have a value; if there are none, the names that were tried
    values: list[tuple[str, str]]  # run -> value
    missing: list[str]  # repetitions without a value


@dataclass(frozen=True)
class ClaimView:
    """The fields of a claim on a page, as text."""

    name: str
    claim: Claim
    verdict: str
    reason: str
    expected: str
    measured: str
    reported: str
    intervals: list[str]
    seeds: str
    explanation: str
    sides: list[Evidence]

    @classmethod
    def of(cls, verdict: Verdict, scale: Scale) -> "ClaimView":
        """Build the view of a verdict."""
        claim, kind = verdict.claim, verdict.claim.effect
        comparison = Comparison.of_claim(claim, scale.scores[claim.task])
        decides = verdict.outcome in DECIDED
        return cls(
            name=verdict.name,
            claim=claim,
            verdict=str(verdict.outcome),
            reason="" if decides else verdict.reason,
            expected=_expected(claim),
            measured=page_text(kind, verdict.effect.value),
            reported=page_text(kind, verdict.reported),
            intervals=[
                f"{page_text(kind, low)} to {page_text(kind, high)} ({name})"
                for name, (low, high) in named_intervals(verdict.effect).items()
            ],
            seeds=few_seeds_text(verdict) or str(verdict.effect.seeds or ""),
            explanation=_filled(explanation(verdict), scale) if scale.name == EXPLAINED else "",
            sides=[_evidence(name, comparison, scale) for name in comparison.all_sides],
        )


def _expected(claim: Claim) -> str:
    what = f"the {claim.effect}" if claim.effect != "value" else "the value"
    if claim.control:
        what += " divided by that of the control" if claim.effect == "ratio" else " minus that of the control"
    if claim.expect == "same":
        low, high = claim.margins
        return f"{what} is between {low:.4g} and {high:.4g}"
    return f"{what} is {'below' if claim.expect == 'lower' else 'above'} {claim.threshold:g}"


def _evidence(name: str, comparison: Comparison, scale: Scale) -> Evidence:
    side, run, value = comparison.all_sides[name], comparison.runs[name], comparison.values[name]
    repetitions = comparison.scores.repetitions.get(run or "", [])
    found = list(value.runs) if value else []
    return Evidence(
        label=SIDES[name] if len(comparison.all_sides) > 1 else "Value",
        title=scale.declared.metric(side.metric).title,
        metric=side.metric,
        moment=_moment(side),
        runs=found or ([run] if run else side.runs),
        values=[(one, number_text(number, 6)) for one, number in zip(value.runs, value.values, strict=True)]
        if value
        else [],
        missing=[one for one in repetitions if one not in found],
    )


def _moment(side: Side) -> str:
    if isinstance(side.at, float | int):
        along = "of the ranks" if side.metric.split(".")[0] in BY_RANK else "of training, at the nearest snapshot"
        return f"at {side.at:.0%} {along}"
    return "when training of the rare rows begins" if side.at == "until" else side.at or ""


def _filled(text: str, scale: Scale) -> str:
    """Fill the effects of other claims, named in braces, into a text."""
    effects = dict.fromkeys(scale.declared.claims, "not measured")
    effects |= {name: shown for name, one in scale.verdicts.items() if (shown := page_text(one.claim.effect, one.effect.value))}
    text = text.format_map(effects)
    return text[:1].upper() + text[1:].removesuffix(".") + "." if text else ""
