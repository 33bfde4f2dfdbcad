"""Results by paper: a summary of five sentences, a forest plot, and every claim with its verdict, reason and caveat."""

from collections import Counter
from collections.abc import Callable, Iterable

from raretokens.evidence.comparison import Effect
from raretokens.evidence.intervals import Interval
from raretokens.evidence.scores import MLE, AllScores, Scores
from raretokens.evidence.verdict import DECIDED, TESTED, Outcome, Verdict, conclusions_of, counted
from raretokens.papers.claim import Claim, EffectKind
from raretokens.papers.declarations import Declarations, Paper
from raretokens.papers.task_names import TASKS
from raretokens.report.claims import MEANINGS, count_text, label, size_text, sizes_in_words
from raretokens.report.effect_text import (
    effect_text,
    few_seeds_text,
    finding_text,
    interval_text,
    named_intervals,
    number_text,
)
from raretokens.report.markdown import render
from raretokens.run import SheetLine

EXPLAINED = "small"  # the scale that the declared reasons and caveats describe


def pages(verdicts: list[Verdict], declared: Declarations, scale: str, scores: AllScores) -> dict[str, str]:
    """Return file name -> page: of each reproduced paper, and later.md with the claims of papers that are not reproduced."""
    effects = shown_effects(verdicts, declared, effect_text)
    shared = {
        "scale": scale,
        "meanings": MEANINGS,
        "number_of": _number_text,
        "rows": lambda own: (_cells(one, _lines(one, scores)) for one in own),
        "prose": {one.name: " ".join(_prose(one, effects, scale, declared)) for one in verdicts},
    }
    found = {}
    for name, about in declared.papers.items():
        shown = conclusions_of(name, verdicts, declared)
        once = counted(shown)
        found[f"{name.lower()}.md"] = render(
            "paper.md",
            name=name,
            about=about,
            summary=summary(about, once, scale),
            tested=_by_model(once, scores),
            conclusions=_by_label(shown),
            own=_by_label(one for one in verdicts if one.claim.paper == name and one.claim.is_ours),
            **shared,
        )
    others = dict.fromkeys(one.claim.paper for one in verdicts if one.claim.paper not in declared.papers)
    groups = {paper: _by_label(one for one in verdicts if one.claim.paper == paper) for paper in others}
    return found | {"later.md": render("later.md", papers=groups, **shared)}


def shown_effects(
    verdicts: Iterable[Verdict], declared: Declarations, form: Callable[[EffectKind, float | None], str]
) -> dict[str, str]:
    """Return claim -> its effect as text, for explanations that name other claims. `form`: effect_text or page_text."""
    shown = {one.name: form(one.claim.effect, one.effect.value) for one in verdicts}
    return dict.fromkeys(declared.claims, "not measured") | {name: text for name, text in shown.items() if text}


def _by_label(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    groups: dict[str, list[Verdict]] = {name: [] for name in MEANINGS}
    for one in verdicts:
        groups[label(one)].append(one)
    return {name: own for name, own in groups.items() if own}


def _number_text(verdicts: list[Verdict]) -> str:
    """Return the number of listed claims, and for conclusions how many of them are counted."""
    times = sum(one.counted_with == one.name for one in verdicts)
    return f"{len(verdicts)}" + ("" if all(one.claim.is_ours for one in verdicts) else f" listed, {times} counted")


def _by_model(verdicts: Iterable[Verdict], scores: AllScores) -> list[list[str]]:
    """Return a row for each model config, text and direction: S(w) under maximum likelihood, and counts of outcomes."""
    groups: dict[tuple[str, str, str, bool], tuple[SheetLine, Counter[Outcome]]] = {}
    for one in verdicts:
        line = next(iter(_lines(one, scores)), None)
        if line and one.effect.seeds:
            key = one.claim.task, line.model, line.tokens, line.reverse
            groups.setdefault(key, (line, Counter()))[1][one.outcome] += 1
    shown = (*TESTED, Outcome.NOT_TESTABLE)
    return [
        [TASKS[task].title, _model(line), _mean_cosine(scores[task], line), *(str(own[outcome]) for outcome in shown)]
        for (task, *_), (line, own) in groups.items()
    ]


def _lines(verdict: Verdict, scores: AllScores) -> list[SheetLine]:
    """Return the lines of a claim's runs. A claim about a text has none."""
    lines = scores[verdict.claim.task].lines
    return [lines[run] for run in verdict.runs if run in lines]


def _model(line: SheetLine) -> str:
    """Return the name of the model config, and whether it translates in the reverse direction."""
    return f"`{line.model}`{' reversed' if line.reverse else ''}"


def _mean_cosine(scores: Scores, model: SheetLine) -> str:
    """Return S(w) of the model's first run of maximum likelihood that has one, as a mean over seeds, or an empty text."""
    runs = (run for run, line in scores.lines.items() if line.same_model(model) and line.objective == MLE)
    values = (scores.value(run, "mean_cosine") for run in runs)
    return next((number_text(value.mean, 2) for value in values if value), "")


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


def _cells(verdict: Verdict, lines: list[SheetLine]) -> list[str]:
    claim, kind = verdict.claim, verdict.claim.effect
    measured, reported = (effect_text(kind, number) for number in (verdict.effect.value, verdict.reported))
    seeds = " ".join(filter(None, [few_seeds_text(verdict) or str(verdict.effect.seeds or ""), _variance(verdict.effect)]))
    interval, q = interval_text(kind, verdict.effect.main_interval), number_text(verdict.q, 2)
    claimed = [claim.statement, " / ".join(dict.fromkeys(map(_model, lines))), _threshold(claim)]
    return [*claimed, measured, interval, q, reported, size_text(verdict), seeds, claim.place, _counted_text(verdict)]


def _counted_text(verdict: Verdict) -> str:
    """Return whether the counts have a conclusion, which can hardly fail or be counted with another."""
    if verdict.claim.hardly_fails:
        return "hardly fails"
    return "" if not verdict.counted_with else "yes" if verdict.counted_with == verdict.name else "with another"


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


def _prose(verdict: Verdict, effects: dict[str, str], scale: str, declared: Declarations) -> Iterable[str]:
    """Yield the verdict's reason, why no count has it, its intervals, and the declared reason or caveat."""
    claim, kind = verdict.claim, verdict.claim.effect
    if verdict.reason and verdict.outcome not in DECIDED:
        yield sentence(f"Reason: {verdict.reason}")
    yield from _why_uncounted(verdict, declared)
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


def _why_uncounted(verdict: Verdict, declared: Declarations) -> Iterable[str]:
    """Yield why no count has a conclusion: it can hardly fail, or another one on the same effect is counted."""
    if verdict.claim.hardly_fails:
        yield sentence(f"The claim can hardly fail, and no count has it: {verdict.claim.hardly_fails}")
    if verdict.counted_with not in ("", verdict.name):
        yield f"It is counted with *{declared.claims[verdict.counted_with].statement}*."


def explanation(verdict: Verdict) -> str:
    """Return the caveat of a reproduced claim, and the explanation of a contradicted or inconclusive claim."""
    claim = verdict.claim
    texts = {Outcome.REPRODUCED: claim.but, Outcome.CONTRADICTED: claim.why, Outcome.INCONCLUSIVE: claim.why}
    return texts.get(verdict.outcome, "")


def sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
