"""Language modelling from right to left: each token is predicted from those after it. Example of a task."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from raretokens.metrics.score_files import Metrics
from raretokens.schema import Section
from reproduction.corpora.tokenization.token_files import tokens
from reproduction.run import Run
from reproduction.tasks import Headline, Task
from reproduction.tasks.evaluation.artifacts import Artifacts
from reproduction.tasks.evaluation.job_specs import ScoreJob
from reproduction.tasks.parameters import Parameters, TaskSettings
from reproduction.training.recipe import TrainJob

if TYPE_CHECKING:
    from raretokens.metrics.score_files import Replicates
    from reproduction.training.token_batches import Blocks


def describe() -> Task:
    return Task(
        title="Language models, right to left",
        text="Language-model text",
        tokens=("lm",),
        headline={"nll": Headline("valid_nll", "NLL", 3), "iw": Headline("isotropy.total", "I(W)", 3)},
    )


def training_data(job: TrainJob, folder: Path) -> tuple["Blocks", "Blocks"]:
    """Return training and validation batches."""
    from reproduction.training.token_batches import Blocks

    training, (train, valid) = job.training, (tokens(folder, split)[::-1] for split in ("train", "valid"))
    batches = Blocks(train, training.block, training.tokens_per_step, job.run.seed)
    return batches, Blocks(valid, training.block, first=training.validation_tokens)


def run_jobs(parameters: Parameters, settings: TaskSettings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    yield "score-backwards", ScoreJob(**score)


def metrics(job: ScoreJob, artifacts: Artifacts) -> Metrics:
    """Return metric -> (value, signature)."""
    from reproduction.tasks.evaluation.geometry import geometry

    likelihood = artifacts.summary["kept"]["valid_nll"]
    return {"valid_nll": (likelihood, "log:e|unit:piece|checkpoint:scored|split:valid"), **geometry(artifacts)}


def bootstrap_replicates(job: ScoreJob, artifacts: Artifacts) -> "Replicates":
    """Return metric -> its values on resampled test sets; this example has none."""
    return {}
