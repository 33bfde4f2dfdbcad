"""Results by paper: a summary, a forest plot, every claim with its card, tables and figures; and one page of all claims.

Every page shows a claim by the same texts: the cells of its row, and the parts of its card.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from raretokens.claims.comparison import Comparison, Effect
from raretokens.claims.effect_text import (
    effect_text,
    few_seeds_text,
    finding_text,
    interval_text,
    named_intervals,
    number_text,
    size_text,
)
from raretokens.claims.scores import SheetLine
from raretokens.claims.verdict import DECIDED, TESTED, Outcome, Verdict
from reproduction.papers.claim import Claim, ClaimSide
from reproduction.papers.claim_history import changes_of_claims
from reproduction.papers.declarations import Declarations, Paper
from reproduction.papers.setting import TASKS
from reproduction.papers.task_scores import MLE, AllScores, TaskScores
from reproduction.papers.verdicts import AGAIN, HARDLY, YES, comparison_of, counted_as, shown_of
from reproduction.report.claims import MEANINGS, count_text, label, main_table, medians_in_words, sizes_in_words
from reproduction.report.figures import picture_kind
from reproduction.report.markdown import escaped, render, table

# Columns of the claims of a paper below the heading of their verdict, and of the list of all claims.
OF_PAPER = ("model", "measured", "95 % interval", "q", "reported", "size", "seeds", "place", "counted")
OF_ALL = ("verdict", "counted", "paper", "metric", "place", "measured", "95 % interval", "reported", "seeds")
EXPLAINED = "small"  # the scale that the declared reasons and caveats describe
HISTORY = "../../../../docs/changes-after-results.md"  # from the pages of the papers of that scale
BY_RANK = ("singular_values", "rank_frequency")  # series over ranks instead of training steps
SIDES = {"left": "first", "right": "second", "control.left": "control, first", "control.right": "control, second"}


@dataclass(frozen=True)
class ClaimText:
    """A claim with its verdict. The page has the card."""

    name: str
    statement: str
    page: str  # such as agg.md
    verdict: Verdict[Claim]
    facts: dict[str, str]  # title -> text, perhaps empty
    prose: str  # when the claim is reproduced, the reason of the verdict, the intervals, and the declared caveat
    sides: str  # Markdown table of the compared numbers, by run
    history: str  # Markdown list of the changes of the claim since its first score, or a sentence that there are none

    def row(self, columns: Iterable[str]) -> list[str]:
        """Return the claim with a link to its card, and its facts of these columns."""
        return [f"[{self.statement}]({self.page}#claim-{self.name})", *(self.facts[name] for name in columns)]

    @property
    def known_facts(self) -> str:
        """All facts that are known, with their titles, in one line."""
        return " · ".join(f"**{title}** {text}" for title, text in self.facts.items() if text)


def pages(
    verdicts: list[Verdict], declared: Declarations, scale: str, scores: AllScores, settings: dict[str, dict[str, str]]
) -> dict[str, str]:
    """Return file name -> text: a page of each paper, later.md (papers that are not reproduced), claims.md and main.md.

    `settings`: table -> file of the table in another setting -> title of the setting.
    """
    texts = _claim_texts(verdicts, declared, scale, scores)
    shared = {
        "scale": scale,
        "meanings": MEANINGS,
        "number_of": _number_text,
        "claim_table": lambda own: _claim_table(own, OF_PAPER),
    }
    kinds = Counter(map(counted_as, verdicts))
    found = {
        "main.md": main_table(verdicts),
        "medians.md": medians_in_words(verdicts),
        "claims.md": render(
            "claims.md", scale=scale, claims=_claim_table(texts.values(), OF_ALL), yes=kinds.pop(YES, 0), others=kinds
        ),
    }
    for name, about in declared.papers.items():
        own = [one for one in verdicts if one.claim.paper == name]
        once = shown_of(name, verdicts)
        found[f"{name.lower()}.md"] = render(
            "paper.md",
            name=name,
            about=about,
            summary=summary(about, once, scale),
            tested=_by_model(once, scores),
            conclusions=_by_label(texts[one.name] for one in own if not one.claim.is_ours),
            own=_by_label(texts[one.name] for one in own if one.claim.is_ours),
            tables=_tables(name, declared, settings),
            figures=figures_of(name, declared),
            **shared,
        )
    others = dict.fromkeys(one.claim.paper for one in verdicts if one.claim.paper not in declared.papers)
    groups = {paper: _by_label(text for text in texts.values() if text.verdict.claim.paper == paper) for paper in others}
    return found | {"later.md": render("later.md", papers=groups, **shared)}


def _tables(paper: str, declared: Declarations, settings: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yield a line for each table of a paper, with links to the table in other settings."""
    for name, one in declared.tables.items():
        if one.paper == paper:
            others = [f"[{title}](../tables/{other}.md)" for other, title in settings.get(name, {}).items()]
            also = f" Other settings: {', '.join(others)}." if others else ""
            yield f"[{one.place}](../tables/{name}.md): {one.title}.{also}"


def figures_of(paper: str, declared: Declarations) -> list[dict[str, str]]:
    """Return the figures of a paper, as the templates show them."""
    return [
        {"id": name, "picture": f"{name}.{picture_kind(figure.panels)}", "place": figure.place, "title": figure.title}
        for name, figure in declared.figures.items()
        if figure.paper == paper
    ]


def _by_label(texts: Iterable[ClaimText]) -> dict[str, list[ClaimText]]:
    groups: dict[str, list[ClaimText]] = {name: [] for name in MEANINGS}
    for text in texts:
        groups[label(text.verdict)].append(text)
    return {name: own for name, own in groups.items() if own}


def _number_text(texts: list[ClaimText]) -> str:
    """Return the number of listed claims, and for conclusions of counted papers how many of them are counted."""
    kinds = [counted_as(one.verdict) for one in texts]
    return f"{len(texts)} listed, {kinds.count(YES)} counted" if {YES, AGAIN, HARDLY} & set(kinds) else f"{len(texts)}"


def _by_model(verdicts: Iterable[Verdict], scores: AllScores) -> list[list[str]]:
    """Return a row for each model config, text and direction: S(w) under maximum likelihood, and counts of outcomes."""
    groups: dict[tuple[str, str, str, bool], tuple[SheetLine, Counter[Outcome]]] = {}
    for one in verdicts:
        line = next(iter(_lines_of(one, scores)), None)
        if line and one.effect.seeds:
            key = one.claim.task, line.model, line.tokens, line.reverse
            groups.setdefault(key, (line, Counter()))[1][one.outcome] += 1
    shown = (*TESTED, Outcome.NOT_TESTABLE)
    return [
        [TASKS[task].title, _model_text(line), _mean_cosine(scores[task], line), *(str(own[outcome]) for outcome in shown)]
        for (task, *_), (line, own) in groups.items()
    ]


def _mean_cosine(scores: TaskScores, model: SheetLine) -> str:
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
    which = f"{len(undecided)} conclusions are" if undecided[1:] else "one conclusion is"
    return f"The most frequent reasons why {which} neither reproduced nor contradicted: {shown}."


def _claim_table(texts: Iterable[ClaimText], columns: Iterable[str]) -> str:
    """Return a Markdown table with a row for each claim."""
    return table(["claim", *columns], (one.row(columns) for one in texts))


def _claim_texts(verdicts: list[Verdict[Claim]], declared: Declarations, scale: str, scores: AllScores) -> dict[str, ClaimText]:
    """Return claim -> its text. `scale`: its name, because reasons and caveats describe one scale."""
    shown = {one.name: effect_text(one.claim.effect, one.effect.value) for one in verdicts}
    effects = dict.fromkeys(declared.claims, "not measured") | {name: text for name, text in shown.items() if text}
    is_explained = scale == EXPLAINED
    changes = changes_of_claims(declared) if is_explained else {}
    return {
        one.name: _text(
            one,
            effects if is_explained else {},
            _history(changes.get(one.name, [])) if is_explained else "",
            declared,
            scores,
        )
        for one in verdicts
    }


def _history(changes: list[dict[str, str]]) -> str:
    """Return the changes of a claim as a Markdown list. Those of wording alone and of all claims of a task are not among them."""
    if not changes:
        return f"No change of this claim alone since its first score is [recorded]({HISTORY})."
    lines = [f"* {one['date']}, `{one['field']}`: {_change(one)} Reason: {escaped(one['reason'])}." for one in changes]
    return "\n".join([f"Changes since the first score ([about the list]({HISTORY})):", "", *lines])


def _change(change: dict[str, str]) -> str:
    """Return what a change replaced, and the verdicts in the reports before and after."""
    before, after = (f"`{change[side]}`" if change[side] else "nothing" for side in ("before", "after"))
    verdicts = [change[side] for side in ("verdict_before", "verdict_after") if change[side]]
    shown = f" The verdict was {' before and '.join(verdicts)}{' after' * (len(verdicts) > 1)}." if verdicts else ""
    return f"{before} became {after}.{shown}"


def _text(
    verdict: Verdict[Claim], effects: dict[str, str], history: str, declared: Declarations, scores: AllScores
) -> ClaimText:
    claim, kind = verdict.claim, verdict.claim.effect
    comparison = comparison_of(claim, scores[claim.task], declared)
    seeds = [few_seeds_text(verdict) or str(verdict.effect.seeds or ""), _variance(verdict.effect)]
    facts = {
        "verdict": label(verdict),
        "paper": claim.paper,
        "metric": declared.metric(claim.left.metric).title,
        "setting": declared.settings[verdict.setting].title if verdict.setting else "",
        "model": " / ".join(dict.fromkeys(map(_model_text, _lines_of(verdict, scores)))),
        "measured": effect_text(kind, verdict.effect.value),
        "95 % interval": interval_text(kind, verdict.effect.main_interval),
        "q": number_text(verdict.q, 2),
        "reported": effect_text(kind, verdict.reported),
        "size": size_text(verdict),
        "seeds": " ".join(filter(None, seeds)),
        "place": claim.place,
        "counted": counted_as(verdict),
    }
    return ClaimText(
        name=verdict.name,
        statement=claim.statement,
        page=f"{claim.paper.lower()}.md" if claim.paper in declared.papers else "later.md",
        verdict=verdict,
        facts=facts,
        prose=" ".join(_prose(verdict, comparison, effects, declared)),
        sides=table(("number", "metric", "runs and values"), _sides(claim, comparison, declared)),
        history=history,
    )


def _lines_of(verdict: Verdict[Claim], scores: AllScores) -> list[SheetLine]:
    """Return the lines of a claim's runs. A claim about a text has none."""
    lines = scores[verdict.claim.task].lines
    return [lines[run] for run in verdict.runs if run in lines]


def _model_text(line: SheetLine) -> str:
    """Return the name of the model config, and whether it translates in the reverse direction."""
    return f"`{line.model}`{' reversed' if line.reverse else ''}"


def _variance(effect: Effect) -> str:
    """Return the variance that the interval has with fewer than three seeds."""
    if not effect.has_few_seeds or not effect.main_interval:
        return ""
    if not effect.interval:
        return "(test set alone)"
    return "(pooled and test set)" if effect.test_interval else "(pooled alone)"


def _prose(
    verdict: Verdict[Claim], comparison: Comparison, effects: dict[str, str], declared: Declarations
) -> Iterator[str]:
    claim, kind = verdict.claim, verdict.claim.effect
    yield f"The claim is reproduced if {_expected(claim)}."
    if verdict.reason and verdict.outcome not in DECIDED:
        yield _sentence(f"Reason: {verdict.reason}")
    yield from _power(verdict, comparison)
    if claim.hardly_fails:
        yield _sentence(f"The claim can hardly fail, and no count has it: {claim.hardly_fails}")
    if verdict.counted_with not in ("", verdict.name):
        yield f"It is counted with *{declared.claims[verdict.counted_with].statement}*."
    intervals = named_intervals(verdict.effect)
    if len(intervals) > 1:
        shown = [f"{interval_text(kind, interval)} ({name} alone)" for name, interval in intervals.items() if name != "total"]
        yield f"The 95 % intervals are {' and '.join(shown)}."
    if (ends := verdict.fraction_interval) is not None:
        middle, low, high = (number_text(number, 3) for number in (verdict.fraction(verdict.effect.value), *ends))
        yield f"The measured effect is {middle} of the reported one ({low} to {high})."
    if claim.unreported:
        yield _sentence(f"The paper reports no such effect: {claim.unreported}")
    texts = {Outcome.REPRODUCED: claim.but, Outcome.CONTRADICTED: claim.why, Outcome.INCONCLUSIVE: claim.why}
    if effects and (text := texts.get(verdict.outcome, "")):
        title = "Caveat" if verdict.outcome == Outcome.REPRODUCED else "Explanation"
        yield _sentence(f"{title}: {text.format_map(effects)}")


def _expected(claim: Claim) -> str:
    what = f"the {claim.effect}"
    if claim.control:
        what += " divided by that of the control" if claim.effect == "ratio" else " minus that of the control"
    if claim.expect == "same":
        low, high = claim.margins
        return f"{what} is between {low:.4g} and {high:.4g}"
    return f"{what} is {'below' if claim.expect == 'lower' else 'above'} {claim.threshold:g}"


def _power(verdict: Verdict[Claim], comparison: Comparison) -> Iterator[str]:
    """Yield how probable a decision was, for an inconclusive claim with a reported effect."""
    claim, seeds = verdict.claim, verdict.effect.seeds
    if verdict.outcome != Outcome.INCONCLUSIVE or verdict.reported is None or not claim.has_comparable_size or seeds < 2:
        return
    if (power := comparison.power(verdict.reported, claim.threshold, seeds)) is not None:
        often = f"an interval of {seeds} seeds decides the claim with probability {power:.2f}"
        yield f"If the true effect is the reported one, {often}."


def _sides(claim: Claim, comparison: Comparison, declared: Declarations) -> Iterator[list[str]]:
    """Yield a row for each compared number: its metric, and the value of each run with a link to the score file."""
    for name, side in comparison.all_sides.items():
        run, value = comparison.runs[name], comparison.values[name]
        found = dict(zip(value.runs, zip(value.values, value.seeds, strict=True), strict=True)) if value else {}
        shown = [
            f"[{one}]({_score_file(one, comparison)}) {number_text(number, 6)}{f' (seed {seed})' * (seed is not None)}"
            for one, (number, seed) in found.items()
        ]
        missing = [one for one in comparison.scores.repetitions.get(run or "", []) if one not in found]
        parts = [", ".join(shown), f"no score of {', '.join(missing)}" if shown and missing else ""]
        text = "; ".join(filter(None, parts)) or f"no score of {run or ' or '.join(side.runs)}"
        metric = ", ".join(filter(None, [f"{declared.metric(side.metric).title} (`{side.metric}`)", _moment(side)]))
        yield [SIDES[name] if len(comparison.all_sides) > 1 else "value", metric, text]


def _score_file(run: str, comparison: Comparison) -> str:
    file = comparison.scores.files(run)[0]
    return f"../runs/{file.parent.name}/{file.name}"


def _moment(side: ClaimSide) -> str:
    if isinstance(side.at, float | int):
        along = "of the ranks" if side.metric.split(".")[0] in BY_RANK else "of training, at the nearest snapshot"
        return f"at {side.at:.0%} {along}"
    return "when training of the rare rows begins" if side.at == "until" else side.at or ""


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
