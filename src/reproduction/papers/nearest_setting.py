"""The setting in which a claim, a table or a figure is judged: the nearest to the paper's that has its runs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from raretokens.claims.comparison import Comparison
from raretokens.claims.effects import Family
from raretokens.claims.intervals import FEWEST_SEEDS
from reproduction.papers.claim import Claim
from reproduction.papers.setting import Setting
from reproduction.papers.task_scores import TaskScores


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
