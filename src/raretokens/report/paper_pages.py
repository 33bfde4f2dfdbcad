"""Results by paper: a summary of five sentences, a forest plot, and every claim with its verdict, reason and caveat."""

from collections import Counter
from collections.abc import Iterable, Iterator

from raretokens.evidence.comparison import Effect
from raretokens.evidence.intervals import Interval
from raretokens.evidence.verdict import DECIDED, Outcome, Verdict, conclusions_of
from raretokens.papers.claim import Claim
from raretokens.papers.declarations import Declarations, Paper
from raretokens.report.claims import MEANINGS, TESTED, count_text, size_text, sizes_in_words
from raretokens.report.effect_text import (
    effect_text,
    few_seeds_text,
    finding_text,
    interval_text,
    named_intervals,
    number_text,
    table,
)

EXPLAINED = "small"  # the scale that the declared reasons and caveats describe
HEAD = ["claim", "threshold", "measured", "95 % interval", "q", "reported", "size", "seeds", "place"]
ABOUT = """\
A measured effect is the first run's metric divided by the second's (x), or minus the second's (+ or -), as a mean over seeds. The
interval has the variance between seeds and the variance between test sets. Other runs of the same model and text help to
estimate the seed variance, most of all with fewer than three seeds (*pooled seed variance*). q is the p value, corrected for the
number of tested claims of the paper. The size compares the interval with the reported effect. A row is the embedding of a token
type, and the glossary (`docs/glossary.md`) defines the other terms.

The column *threshold* has the effect that the claim needs. Where it is empty, the threshold is no change: x 1 or 0. With fewer
than three seeds, the column *seeds* says which variance the interval has. *Pooled* is the pooled seed variance.
"""


def paper_page(name: str, verdicts: list[Verdict], declared: Declarations, scale: str) -> str:
    """Return the page of a reproduced paper."""
    about, counted = declared.papers[name], conclusions_of(name, verdicts, declared)
    own = [one for one in verdicts if one.claim.paper == name and one.claim.is_ours]
    lines = [f"# {name}: results at the {scale} scale", "", f"[{about.title}]({about.url}) ({about.authors}).", ""]
    lines += [f"* {sentence}" for sentence in summary(about, counted, scale)]
    lines += ["", f"![Measured effects of {name} as a fraction of the reported ones]({name.lower()}-forest.svg)"]
    lines += ["", "## Conclusions of the paper", "", ABOUT, *_by_verdict(counted, verdicts, declared, scale)]
    if own:
        lines += ["## Our interpretations, controls and experiments", "", *_by_verdict(own, verdicts, declared, scale)]
    return "\n".join(lines)


def later_page(verdicts: list[Verdict], declared: Declarations, scale: str) -> str:
    """Return the page of claims of papers that are not reproduced."""
    lines = ["# Later papers", "", "These papers propose later methods. Their tables are not reproduced.", ""]
    for paper in dict.fromkeys(one.claim.paper for one in verdicts if one.claim.paper not in declared.papers):
        own = [one for one in verdicts if one.claim.paper == paper]
        lines += [f"## {paper}", "", *_by_verdict(own, verdicts, declared, scale)]
    return "\n".join(lines)


def summary(about: Paper, verdicts: list[Verdict], scale: str) -> list[str]:
    """Return five sentences: the paper's claim, the reproduced, contradicted and inconclusive conclusions, and the reasons."""
    of = {outcome: [one for one in verdicts if one.outcome == outcome] for outcome in Outcome}
    reproduced, contradicted = of[Outcome.REPRODUCED], of[Outcome.CONTRADICTED]
    tested = sum(len(of[outcome]) for outcome in TESTED)
    left = [count_text(len(of[kind]), kind) for kind in (Outcome.INCONCLUSIVE, Outcome.NOT_TESTABLE, Outcome.NOT_RUN)]
    return [
        about.claim,
        f"At the {scale} scale, {len(reproduced)} of the {tested} conclusions that could be tested "
        f"{'is' if len(reproduced) == 1 else 'are'} reproduced{_example(reproduced)}. {sizes_in_words(verdicts)}",
        f"{count_text(len(contradicted), Outcome.CONTRADICTED)}{_example(contradicted)}.",
        f"{left[0]}, {left[1]} and {left[2]}.",
        _why(verdicts),
    ]


def _example(verdicts: list[Verdict]) -> str:
    """Return the main claim among the verdicts as an example, or the first claim with a reported effect."""
    reported = [one for one in verdicts if one.reported is not None and one.effect.value is not None]
    chosen = next(iter([one for one in reported if one.claim.main] or reported), None)
    return f". An example is *{chosen.claim.statement}*: {finding_text(chosen)}" if chosen else ""


def _why(verdicts: list[Verdict]) -> str:
    """Return the most frequent reasons of verdicts that decide nothing."""
    undecided = [one for one in verdicts if one.outcome not in DECIDED]
    if not undecided:
        return "Every conclusion could be decided."
    reasons = Counter(one.reason.split(";")[0] or MEANINGS[one.outcome] for one in undecided).most_common(2)
    shown = "; ".join(f"{reason} ({count})" for reason, count in reasons)
    return f"The most frequent reasons why {len(undecided)} conclusions are neither reproduced nor contradicted: {shown}."


def _by_verdict(own: list[Verdict], verdicts: list[Verdict], declared: Declarations, scale: str) -> Iterator[str]:
    """Yield a table for each verdict, followed by the reasons and caveats."""
    effects = dict.fromkeys(declared.claims, "not measured")
    effects |= {
        one.name: effect_text(one.claim.effect, one.effect.value) for one in verdicts if one.effect.value is not None
    }
    for outcome in reversed(Outcome):
        found = [one for one in own if one.outcome == outcome]
        if not found:
            continue
        yield f"### {str(outcome).capitalize()}: {len(found)}"
        yield from ("", f"{MEANINGS[outcome].capitalize()}.", "", *table(HEAD, [_row(one) for one in found]), "")
        for one in found:
            if prose := " ".join(_prose(one, effects, scale)):
                yield from (f"<details><summary>{one.claim.statement}</summary>", "", prose, "", "</details>", "")


def _row(verdict: Verdict) -> list[str]:
    claim, kind = verdict.claim, verdict.claim.effect
    measured, reported = (effect_text(kind, number) for number in (verdict.effect.value, verdict.reported))
    seeds = " ".join(filter(None, [few_seeds_text(verdict) or str(verdict.effect.seeds or ""), _variance(verdict.effect)]))
    interval, q = interval_text(kind, verdict.main_interval), number_text(verdict.q, 2)
    return [claim.statement, _threshold(claim), measured, interval, q, reported, size_text(verdict), seeds, claim.place]


def _threshold(claim: Claim) -> str:
    """Return the effect that a claim needs, or an empty text for any effect above or below no change."""
    if claim.expect == "same":
        return interval_text(claim.effect, Interval(*claim.margins))
    side = "below" if claim.expect == "lower" else "above"
    needs_text = claim.effect == "value" or claim.threshold != claim.neutral
    return f"{side} {effect_text(claim.effect, claim.threshold)}" if needs_text else ""


def _variance(effect: Effect) -> str:
    """Return the variance that the interval has with fewer than three seeds."""
    if not effect.has_few_seeds or not effect.main_interval:
        return ""
    if not effect.interval:
        return "(test set alone)"
    return "(pooled and test set)" if effect.test_interval else "(pooled alone)"


def _prose(verdict: Verdict, effects: dict[str, str], scale: str) -> Iterable[str]:
    """Yield the verdict's reason, its intervals, why the paper reports no effect, and the declared reason or caveat."""
    claim, kind = verdict.claim, verdict.claim.effect
    if verdict.reason and verdict.outcome not in DECIDED:
        yield sentence(f"Reason: {verdict.reason}")
    intervals = named_intervals(verdict.effect)
    if len(intervals) > 1:
        shown = [f"{interval_text(kind, interval)} ({name} alone)" for name, interval in intervals.items() if name != "total"]
        yield f"The 95 % intervals are {' and '.join(shown)}."
    if (ends := verdict.fraction_interval) is not None:
        middle, low, high = (number_text(number, 3) for number in (verdict.fraction(verdict.effect.value), *ends))
        yield f"The measured effect is {middle} of the reported one ({low} to {high})."
    if claim.unreported:
        yield sentence(f"The paper reports no such effect: {claim.unreported}")
    text = explanation(verdict)
    if text and scale == EXPLAINED:
        label = "Caveat" if verdict.outcome == Outcome.REPRODUCED else "Explanation"
        yield sentence(f"{label}: {text.format_map(effects)}")


def explanation(verdict: Verdict) -> str:
    """Return the caveat of a reproduced claim, and the explanation of a contradicted or inconclusive claim."""
    claim = verdict.claim
    texts = {Outcome.REPRODUCED: claim.but, Outcome.CONTRADICTED: claim.why, Outcome.INCONCLUSIVE: claim.why}
    return texts.get(verdict.outcome, "")


def sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
