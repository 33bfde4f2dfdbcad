"""The pipeline in the parts that can be made side by side: what runs share, the stages of each run, the rest."""

from raretokens.pipeline.jobs import of_run
from raretokens.tasks.parameters import Parameters

SHARED = ("jobs", "prepare", "encode", "align", "baseline", "similarity")


def lines(parameters: Parameters, continued: bool = False) -> list[str]:
    """The DVC targets of each run, in their order: train-lm@mle probe@mle score-lm@mle.

    continued: of runs that start from the weights of others, instead.
    """
    end = "-continued" if continued else ""
    runs = [run for run in parameters.every_run() if bool(run.after) == continued]
    return [" ".join(f"{stage}{end}@{run.name}" for stage, _ in of_run(parameters, run)) for run in runs]
