"""DVC targets of a scale, split into shared stages and the stages of each run for parallel execution; selections of runs."""

from collections.abc import Collection, Iterator
from pathlib import Path

from raretokens.evidence.comparison import Comparison
from raretokens.evidence.scores import AllScores, Scores
from raretokens.papers.declarations import Declarations
from raretokens.pipeline.jobs import jobs_of_run, run_sheet
from raretokens.tasks.parameters import Parameters

SHARED_STAGES = ("jobs", "prepare", "encode", "align", "baseline", "similarity")


def run_targets(
    parameters: Parameters, continued: bool = False, only: Collection[tuple[str, str]] | None = None
) -> list[str]:
    """Return the DVC targets of each run as one string, in order: train-lm@mle predict-lm@mle score-lm@mle.

    Args:
        continued: select the runs that start from the weights of another run; False selects the other runs.
        only: (task, name) of the selected runs; None: all.
    """
    end = "-continued" if continued else ""
    runs = [run for run in parameters.every_run() if bool(run.init_from) == continued]
    runs = [run for run in runs if only is None or (run.task, run.name) in only]
    return [" ".join(f"{stage}{end}@{run.name}" for stage, _ in jobs_of_run(parameters, run)) for run in runs]


def main_runs(parameters: Parameters, declarations: Declarations, folder: Path) -> set[tuple[str, str]]:
    """Return (task, name) of the runs of the main claims, with all seeds and the runs that they start from.

    A claim with a run that is not on the run sheet is skipped.

    Args:
        folder: folder of the score files.
    """
    scores = AllScores(run_sheet(parameters), folder)
    needed: set[tuple[str, str]] = set()
    for claim in filter(lambda claim: claim.main, declarations.claims.values()):
        part = scores[claim.task]
        found = Comparison.of_claim(claim, part).runs
        runs = [found[name] for name, side in claim.all_sides.items() if not side.data]
        if None not in runs:
            needed |= {(claim.task, name) for run in filter(None, runs) for name in _with_ancestors(part, run)}
    return needed


def _with_ancestors(scores: Scores, run: str) -> Iterator[str]:
    for name in scores.repetitions.get(run, [run]):
        yield name
        after = scores.lines[name].init_from
        while after:
            yield after
            after = scores.lines[after].init_from


def first_seeds(parameters: Parameters, folder: Path) -> set[tuple[str, str]]:
    """Return (task, name) of the first seed of each run. `folder` contains the score files."""
    return {
        (task, run) for task, scores in AllScores(run_sheet(parameters), folder).items() for run in scores.repetitions
    }
