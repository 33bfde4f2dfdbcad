"""The setting in which a claim, a table or a figure is judged: the nearest to the paper's that has its runs."""

from collections.abc import Iterable, Sequence

from raretokens.evidence.intervals import FEWEST_SEEDS
from raretokens.evidence.scores import Scores
from raretokens.papers.setting import Setting

FEWEST_ROWS = 2  # runs of the same model with several seeds, whose variance the others can pool


def views(settings: dict[str, Setting], scores: Scores, runs: Iterable[Sequence[str]]) -> list[tuple[str, Scores]]:
    """Return the name of each setting that has all runs on the run sheet, and the scores in this setting, the nearest first.

    Settings that are not like the paper's come last, and before them those whose runs have too few seeds for any decision. A
    comparison of runs of several settings, or of none, has one view without a name: the scores as they are. In a setting, runs of
    two settings would become one.

    Args:
        settings: by name, of each task the nearest to the paper's first.
        runs: for each number that is compared, the names of its run in the order in which they are tried.
    """
    wanted = {tuple(names) for names in runs if names}
    found = []
    for name, setting in settings.items():
        view = scores.in_setting(setting)
        chosen = {view.choose(names) for names in wanted} if setting.task == scores.task else set()
        has_all = all(run and scores.lines[run].model in setting.models for run in chosen)
        if chosen and has_all and len(chosen) == len(wanted):
            found.append(((not setting.is_like_the_paper, not _has_seeds(scores, chosen)), name, view))
    return [(name, view) for _, name, view in sorted(found, key=lambda one: one[0])] or [("", scores)]


def nearest(settings: dict[str, Setting], scores: Scores, runs: Iterable[Sequence[str]]) -> tuple[str, Scores]:
    """Return the first of the views."""
    return views(settings, scores, runs)[0]


def _has_seeds(scores: Scores, runs: Iterable[str]) -> bool:
    """Whether each run has three seeds, or others of the same model have several whose variance it can pool."""
    for run in runs:
        alike = (row for row in scores.repetitions if scores.lines[row].same_model(scores.lines[run]))
        several = sum(len(scores.scored_seeds(row)) > 1 for row in alike)
        if len(scores.scored_seeds(run)) < FEWEST_SEEDS and several < FEWEST_ROWS:
            return False
    return True
