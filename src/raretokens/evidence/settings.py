"""The setting in which a claim, a table or a figure is judged: the nearest to the paper's that has all of its runs."""

from collections.abc import Iterable, Iterator

from raretokens.evidence.scores import Scores
from raretokens.papers.setting import Setting



def views(settings: dict[str, Setting], scores: Scores, runs: Iterable[list[str]]) -> Iterator[tuple[str, Scores]]:
    """Yield the name of each setting that has all runs on the run sheet, and the scores in this setting, the nearest first.

    Settings that are not like the paper's come last. A comparison of runs of several settings, or of none, has one view without
    a name: the scores as they are.

    Args:
        settings: by name, of each task the nearest to the paper's first.
        runs: for each number that is compared, the names of its run in the order in which they are tried.
    """
    wanted, found = [names for names in runs if names], False
    for name, setting in sorted(settings.items(), key=lambda item: not item[1].is_like_the_paper):
        view = scores.in_setting(setting)
        chosen = [view.choose(names) for names in wanted] if setting.task == scores.task else []
        if chosen and all(run and scores.lines[run].model in setting.models for run in chosen):
            found = True
            yield name, view
    if not found:
        yield "", scores


def nearest(settings: dict[str, Setting], scores: Scores, runs: Iterable[list[str]]) -> tuple[str, Scores]:
    """Return the first of the views."""
    return next(views(settings, scores, runs))
