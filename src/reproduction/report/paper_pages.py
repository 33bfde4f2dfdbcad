"""Results by paper: a summary, a forest plot, every claim with its card, tables and figures; and one page of all claims."""

from collections import Counter
from collections.abc import Iterable, Iterator

from raretokens.claims.effect_text import finding_text, number_text
from raretokens.claims.scores import SheetLine
from raretokens.claims.verdict import DECIDED, TESTED, Outcome, Verdict
from reproduction.papers.declarations import Declarations, Paper
from reproduction.papers.setting import TASKS
from reproduction.papers.task_scores import MLE, AllScores, TaskScores
from reproduction.papers.verdicts import AGAIN, HARDLY, YES, counted_as, shown_of
from reproduction.report.claim_text import ClaimText, claim_table, claim_texts, lines_of, model_text
from reproduction.report.claims import MEANINGS, count_text, label, main_table, medians_in_words, sizes_in_words
from reproduction.report.figures import picture_kind
from reproduction.report.markdown import render

# Columns of the claims of a paper below the heading of their verdict, and of the list of all claims.
OF_PAPER = ("model", "measured", "95 % interval", "q", "reported", "size", "seeds", "place", "counted")
OF_ALL = ("verdict", "counted", "paper", "metric", "place", "measured", "95 % interval", "reported", "seeds")


def pages(
    verdicts: list[Verdict], declared: Declarations, scale: str, scores: AllScores, settings: dict[str, dict[str, str]]
) -> dict[str, str]:
    """Return file name -> text: a page of each paper, later.md (papers that are not reproduced), claims.md and main.md.

    `settings`: table -> file of the table in another setting -> title of the setting.
    """
    texts = claim_texts(verdicts, declared, scale, scores)
    shared = {
        "scale": scale,
        "meanings": MEANINGS,
        "number_of": _number_text,
        "claim_table": lambda own: claim_table(own, OF_PAPER),
    }
    kinds = Counter(map(counted_as, verdicts))
    found = {
        "main.md": main_table(verdicts),
        "medians.md": medians_in_words(verdicts),
        "claims.md": render(
            "claims.md", scale=scale, claims=claim_table(texts.values(), OF_ALL), yes=kinds.pop(YES, 0), others=kinds
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
    for name, table in declared.tables.items():
        if table.paper == paper:
            others = [f"[{title}](../tables/{other}.md)" for other, title in settings.get(name, {}).items()]
            also = f" Other settings: {', '.join(others)}." if others else ""
            yield f"[{table.place}](../tables/{name}.md): {table.title}.{also}"


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
        line = next(iter(lines_of(one, scores)), None)
        if line and one.effect.seeds:
            key = one.claim.task, line.model, line.tokens, line.reverse
            groups.setdefault(key, (line, Counter()))[1][one.outcome] += 1
    shown = (*TESTED, Outcome.NOT_TESTABLE)
    return [
        [TASKS[task].title, model_text(line), _mean_cosine(scores[task], line), *(str(own[outcome]) for outcome in shown)]
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
