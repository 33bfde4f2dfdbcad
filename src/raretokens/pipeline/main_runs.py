"""Parts of the run sheet: the runs that the few main conclusions of a scale rest on, and one seed of each run."""

from collections.abc import Iterator
from pathlib import Path

from raretokens.evidence.comparison import Comparison
from raretokens.evidence.scores import Scores, all_scores
from raretokens.papers.declarations import Declarations
from raretokens.pipeline.jobs import sheet
from raretokens.tasks.parameters import Parameters


def main_runs(parameters: Parameters, declared: Declarations, folder: Path) -> set[tuple[str, str]]:
    """Task and name of each, with all seeds and what they start from; of conclusions that lack a run on the run sheet, none.

    folder: of score files.
    """
    scores = all_scores(sheet(parameters), folder)
    needed: set[tuple[str, str]] = set()
    for claim in filter(lambda claim: claim.main, declared.claims.values()):
        part = scores[claim.task]
        found = Comparison.of_claim(claim, part).runs
        runs = [found[name] for name, side in claim.all_sides.items() if not side.data]
        if None not in runs:
            needed |= {(claim.task, name) for run in filter(None, runs) for name in _with_ancestors(part, run)}
    return needed


def _with_ancestors(scores: Scores, run: str) -> Iterator[str]:
    for name in scores.repetitions.get(run, [run]):
        yield name
        after = scores.lines[name].after
        while after:
            yield after
            after = scores.lines[after].after


def one_seed(parameters: Parameters, folder: Path) -> set[tuple[str, str]]:
    """Task and name of the first seed of each run. folder: of score files."""
    return {(task, run) for task, scores in all_scores(sheet(parameters), folder).items() for run in scores.repetitions}
