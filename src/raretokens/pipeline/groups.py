"""The pipeline in the parts that can be made side by side: what runs share, the stages of each run, the rest."""

from collections.abc import Collection

from raretokens.pipeline.jobs import of_run
from raretokens.tasks.parameters import Parameters

SHARED = ("jobs", "prepare", "encode", "align", "baseline", "similarity")


def lines(
    parameters: Parameters, continued: bool = False, only: Collection[tuple[str, str]] | None = None
) -> list[str]:
    """The DVC targets of each run, in their order: train-lm@mle probe@mle score-lm@mle.

    continued: of runs that start from the weights of others, instead. only: task and name of those that are wanted; absent: all.
    """
    end = "-continued" if continued else ""
    runs = [run for run in parameters.every_run() if bool(run.after) == continued]
    runs = [run for run in runs if only is None or (run.task, run.name) in only]
    return [" ".join(f"{stage}{end}@{run.name}" for stage, _ in of_run(parameters, run)) for run in runs]
