"""Verdicts on the conclusions of the papers: settings, preconditions, q within a paper and kind of metric, and counts.

A claim, a table or a figure is judged in the setting that is the nearest to the paper's and has its runs.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import ge, gt, le, lt
from typing import NamedTuple

from raretokens.claims.comparison import Comparison
from raretokens.claims.effects import Family, combined_effect
from raretokens.claims.intervals import FEWEST_SEEDS
from raretokens.claims.verdict import DECIDED, HIGHEST_Q, Extent, Outcome, Verdict, verdict_on, with_q
from reproduction.papers.claim import OWN, Claim, ClaimSide, Precondition
from reproduction.papers.declarations import Declarations
from reproduction.papers.setting import Setting
from reproduction.papers.task_scores import TaskScores

YES, AGAIN, HARDLY, LATER = "yes", "with another", "can hardly fail", "later paper"
STRENGTHS = (Outcome.CONTRADICTED, Outcome.INCONCLUSIVE, Outcome.REPRODUCED, Outcome.NOT_TESTABLE, Outcome.NOT_RUN)


def judge_all(declared: Declarations, scores: dict[str, TaskScores]) -> list[Verdict[Claim]]:
    """Return the verdicts on all claims. A main claim is decided only if its q is at most HIGHEST_Q."""

    def family(claim: Claim) -> str:
        return "" if claim.hardly_fails else f"{claim.paper} {declared.metric(claim.left.metric).kind}"

    found = [judge_alone(name, claim, scores[claim.task], declared) for name, claim in declared.claims.items()]
    return with_counts([_in_its_setting(_of_many(one), declared) for one in with_q(found, family)], declared)


def _of_many(verdict: Verdict[Claim]) -> Verdict[Claim]:
    """Return a main claim as inconclusive if it is decided by its own interval, but not among the claims of its family."""
    if not verdict.claim.main or verdict.outcome not in DECIDED or verdict.q is None or verdict.q <= HIGHEST_Q:
        return verdict
    reason = f"q is {verdict.q:.2g} in the family {verdict.family}, and a main claim needs {HIGHEST_Q}"
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason)


def with_counts(verdicts: list[Verdict[Claim]], declared: Declarations) -> list[Verdict[Claim]]:
    """Return the verdicts with the claim that is counted for each. A conclusion that two papers share has that of the first."""
    shown = conclusions(verdicts, declared)
    weakest = {one.claim.effect_key: one.name for one in counted(shown)}
    counts = {one.claim.comparison_key: weakest.get(one.claim.effect_key, "") for one in shown if not one.claim.hardly_fails}
    found = []
    for one in verdicts:
        is_open = _is_conclusion(one.claim, declared) and not one.claim.hardly_fails
        found.append(replace(one, counted_with=counts.get(one.claim.comparison_key, "") if is_open else ""))
    return found


def counted(shown: Iterable[Verdict[Claim]]) -> list[Verdict[Claim]]:
    """Return the conclusions that are counted: the weakest verdict on each effect, without claims that can hardly fail.

    Conclusions that were not tested count only where no conclusion on the effect was.
    """
    effects: dict[Hashable, list[Verdict[Claim]]] = {}
    for one in shown:
        if not one.claim.hardly_fails:
            effects.setdefault(one.claim.effect_key, []).append(one)
    return [min(own, key=lambda one: (STRENGTHS.index(one.outcome), one.extent == Extent.SIZE)) for own in effects.values()]


def conclusions(verdicts: Iterable[Verdict], declared: Declarations) -> list[Verdict]:
    """Return the verdicts on the conclusions of the counted papers, each once if two papers share it."""
    once: dict[str, Verdict] = {}
    for verdict in verdicts:
        if _is_conclusion(verdict.claim, declared):
            once.setdefault(verdict.claim.comparison_key, verdict)
    return list(once.values())


def _is_conclusion(claim: Claim, declared: Declarations) -> bool:
    return not claim.is_ours and claim.paper in declared.counted_papers


def counted_as(verdict: Verdict) -> str:
    """Return the column `counted`, by which all reports count: YES for a conclusion that is counted, or why a claim is not."""
    claim = verdict.claim
    if claim.is_ours:
        return OWN[claim.kind]
    if verdict.counted_with:
        return YES if verdict.counted_with == verdict.name else AGAIN
    return HARDLY if claim.hardly_fails else LATER


def shown_of(paper: str, verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts that the counts of a paper's page have. Those of a later paper are in no count of all papers."""
    return [one for one in verdicts if one.claim.paper == paper and counted_as(one) in (YES, LATER)]


def judge(name: str, claim: Claim, scores: TaskScores, declared: Declarations) -> Verdict[Claim]:
    """Return the verdict on a claim of a paper by its own p, in the nearest setting that has its runs."""
    return _in_its_setting(judge_alone(name, claim, scores, declared), declared)


def judge_alone(name: str, claim: Claim, scores: TaskScores, declared: Declarations) -> Verdict[Claim]:
    """Return the verdict of `judge`, where a claim may be inconclusive in any setting."""
    setting, own = nearest(declared.settings, scores, claim)
    return replace(judge_in(own, name, claim, declared), setting=setting)


def comparison_of(claim: Claim, scores: TaskScores, declared: Declarations) -> Comparison:
    """Return the comparison of a claim in the nearest setting that has its runs."""
    return Comparison.of_claim(claim, nearest(declared.settings, scores, claim)[1])


def judge_in(scores: TaskScores, name: str, claim: Claim, declared: Declarations) -> Verdict[Claim]:
    """Return the verdict on a claim in the setting of the scores."""
    comparison = Comparison.of_claim(claim, scores)
    obstacle = claim.by_construction or unmet([declared.preconditions[need] for need in claim.needs], comparison)
    numbers = reported_numbers(claim, declared)
    found = verdict_on(name, claim, comparison, reported_effect(claim, declared), obstacle)
    return replace(found, reported_left=numbers["left"], reported_right=numbers.get("right"))


def _in_its_setting(verdict: Verdict[Claim], declared: Declarations) -> Verdict[Claim]:
    """Return an inconclusive verdict as not testable if its setting is not like the paper's.

    It keeps p and q. Otherwise a family would lose the claims that are not decided, and q of the others would be too small.
    """
    why = declared.settings[verdict.setting].reason if verdict.setting else ""
    if verdict.outcome != Outcome.INCONCLUSIVE or not why:
        return verdict
    return replace(verdict, outcome=Outcome.NOT_TESTABLE, reason=why, unit_length=None)


def unmet(preconditions: Iterable[Precondition], comparison: Comparison) -> str | None:
    """Return why the claim is not testable on the comparison's runs, or None. A missing number is a reason, too."""
    reasons = [reason for precondition in preconditions for reason in _reasons(precondition, comparison)]
    return "; ".join(dict.fromkeys(reasons)) or None


class _NoNumber(Exception):
    """A number of a precondition is missing. The message says which."""


def _reasons(precondition: Precondition, comparison: Comparison) -> Iterator[str]:
    """Yield a reason for each run that fails the precondition or lacks a number. `both` means the sides that are trained."""
    own, sides = precondition.of, comparison.sides.items()
    of_sides = [side.runs for name, side in sides if own == name or own == "both" and not side.data]
    for names in of_sides if own else [precondition.run]:
        try:
            if not _is_met(precondition, names, comparison.scores):
                yield precondition.reason
        except _NoNumber as missing:
            yield str(missing)


def _is_met(precondition: Precondition, names: list[str], scores: TaskScores) -> bool:
    number = _number_of(names, precondition.metric, scores)
    above, below = (
        None if reference is None else _number_of(reference.run, reference.metric, scores)
        for reference in (precondition.above, precondition.below)
    )
    bounds = ((ge, precondition.least), (le, precondition.most), (gt, above), (lt, below))
    return all(bound is None or is_on_side(number, bound) for is_on_side, bound in bounds)


def _number_of(names: list[str], metric: str, scores: TaskScores) -> float:
    """Return the mean of a metric, or the option for `options.<name>`, of the first of the names that is known.

    Raises:
        _NoNumber: if no name is known, or if the run lacks the metric.
    """
    run = scores.choose(names) or scores.choose(names, data=True)
    if run is None:
        raise _NoNumber(f"no run named {' or '.join(scores.own_names(names))} has {metric}")
    if metric.startswith("options."):
        number = scores.fact(run, metric)
    else:  # `run` is a name in the setting already
        side = ClaimSide(runs=[run], metric=metric, data=run not in scores.lines)
        value = scores.in_setting(None).of(side)
        number = value.mean if value else None
    if number is None:
        raise _NoNumber(f"{run} has no {metric}")
    return number


def reported_numbers(claim: Claim, declared: Declarations) -> dict[str, float | None]:
    """Return side -> the number that the paper reports, or None. The sides of a control are left out if they lack numbers."""
    if claim.unreported:
        return dict.fromkeys(claim.sides)
    sides = claim.sides if claim.lacks_control else claim.all_sides
    cells = {name: side.reported for name, side in sides.items()}
    return {name: declared.reported(file).mean(row, column, group) for name, (file, row, column, group) in cells.items()}


def reported_effect(claim: Claim, declared: Declarations) -> float | None:
    """Return the effect that the paper reports, or None."""
    numbers = list(reported_numbers(claim, declared).values())
    return None if None in numbers else float(combined_effect(claim.effect, numbers))


class View(NamedTuple):
    """The scores in a setting that has all runs on the run sheet."""

    name: str
    scores: TaskScores
    runs: frozenset[str]


def views(settings: dict[str, Setting], scores: TaskScores, runs: Iterable[Sequence[str]]) -> list[tuple[str, TaskScores]]:
    """Return the name of each setting that has all runs on the run sheet, and the scores in this setting, the nearest first.

    Settings in which a run has no score come last. Before them come those that are not like the paper's, and before these those
    whose runs have too few seeds for any decision. A comparison of runs of several settings, or of none, has one view without a
    name: the scores as they are. In a setting, runs of two settings would become one.

    Args:
        settings: by name, of each task the nearest to the paper's first.
        runs: for each number that is compared, the names of its run in the order in which they are tried.
    """

    def rank(view: View) -> tuple[bool, bool, bool]:
        is_scored = all(map(scores.scored, view.runs))
        return not is_scored, not settings[view.name].is_like_the_paper, not all(_has_seeds(scores, run) for run in view.runs)

    found = sorted(_views(settings, scores, runs), key=rank)
    return [(view.name, view.scores) for view in found] or [("", scores)]


def nearest(settings: dict[str, Setting], scores: TaskScores, claim: Claim) -> tuple[str, TaskScores]:
    """Return the setting of a claim, in the order of `views`. The scores and seeds are those of the numbers that it compares.

    An effect that is not finite, or the same on every seed, has its seeds: the setting must not depend on the result.
    """

    def rank(view: View) -> tuple[bool, bool, bool]:
        comparison = Comparison.of_claim(claim, view.scores)
        effects = list(comparison.seed_effects.values())
        is_the_same = len(effects) > 1 and len(set(effects)) == 1
        has_seeds = not comparison.is_finite or comparison.seed_posterior is not None or is_the_same
        return not comparison.seed_effects, not settings[view.name].is_like_the_paper, not has_seeds

    found = list(_views(settings, scores, claim.trained_runs))
    best = min(found, key=rank) if found[1:] else next(iter(found), None)
    return (best.name, best.scores) if best else ("", scores)


def _views(settings: dict[str, Setting], scores: TaskScores, runs: Iterable[Sequence[str]]) -> Iterator[View]:
    """Yield the settings that have all runs, in the order of the declarations."""
    wanted = {tuple(names) for names in runs if names}
    for name, setting in settings.items():
        view = scores.in_setting(setting)
        chosen = {view.choose(names) for names in wanted} if setting.task == scores.task else set()
        has_all = all(run and scores.lines[run].model in setting.models for run in chosen)
        if chosen and has_all and len(chosen) == len(wanted):
            yield View(name, view, frozenset(filter(None, chosen)))


def _has_seeds(scores: TaskScores, run: str) -> bool:
    """Whether a run has seeds of its own for an interval, or other runs of the same model have."""
    alike = (row for row in scores.repetitions if scores.lines[row].same_model(scores.lines[run]))
    family = Family({row: dict.fromkeys(scores.scored_seeds(row), 0.0) for row in alike})
    return len(scores.scored_seeds(run)) >= FEWEST_SEEDS or family.can_pool
