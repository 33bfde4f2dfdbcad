"""Image classification: predict the class of an image, with one row of the output embedding per class."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raretokens.errors import UserError
from raretokens.metrics.score_files import Metrics, Replicates
from raretokens.schema import Section
from raretokens.vocabulary import SPECIALS, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization.token_files import read_images
from reproduction.run import Run
from reproduction.tasks import Headline, Task, classify
from reproduction.tasks.evaluation.artifacts import Artifacts
from reproduction.tasks.evaluation.job_specs import ClassifierPredictJob, MajorityBaseline, ScoreJob
from reproduction.tasks.parameters import Parameters, TaskSettings
from reproduction.training.recipe import TrainJob

if TYPE_CHECKING:
    from torch import nn

    from reproduction.training.example_batches import Images

Baseline = MajorityBaseline
Predict = ClassifierPredictJob
baseline_job = classify.baseline_job


def describe() -> Task:
    return Task(
        title="Classification of images",
        text="Classified images",
        kind="images",
        tokens=("images",),
        pictures={"projection": False},
        headline={"accuracy": Headline("accuracy.total", "accuracy")},
    )


def training_data(job: TrainJob, folder: Path) -> tuple["Images", "Images"]:
    """Return training and validation images.

    Raises:
        UserError: The images do not have as many pixels as `block` of the training settings.
    """
    from reproduction.training.example_batches import Images

    run, training = job.run, job.training
    train, valid = (read_images(folder, split) for split in ("train", "valid"))
    pixels = train[0].shape[1]
    if pixels != training.block:
        raise UserError(f"{run.task}.training.block: {training.block}; images of {run.tokens} have {pixels} pixels")
    batches = Images(*train, training.tokens_per_step, run.seed)
    return batches, Images(*valid, first=training.validation_tokens)


def run_jobs(parameters: Parameters, settings: TaskSettings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    yield from classify.run_jobs(parameters, settings, run, {**score, "markers": False})


def predict(job: Predict, folder: Path, trained: Path, into: Path) -> None:
    """Write log-probabilities of the test images; folder: folder of the token files."""
    from reproduction.tasks.evaluation.classification import write_predictions

    write_predictions(job, _predict_images, folder, trained, into)


def _predict_images(model: "nn.Module", folder: Path, block: int) -> np.ndarray:
    """Return natural log-probabilities (test images x classes, float32), in id order without specials and fillers."""
    from reproduction.tasks.evaluation.classification import TOKENS_AT_ONCE
    from reproduction.training.example_batches import Images

    kept = slice(len(SPECIALS), Vocabulary.read(folder / VOCABULARY).types)
    found = []
    for batch in Images(*read_images(folder, "test")).everything(TOKENS_AT_ONCE):
        features = model(batch.inputs[0].to(model.embedding.device))[:, 0]
        found.append((features @ model.embedding.T).float().log_softmax(1)[:, kept].cpu().numpy())
    return np.concatenate(found)


def metrics(job: ScoreJob, artifacts: Artifacts) -> Metrics:
    from reproduction.tasks.evaluation.class_metrics import class_metrics

    return class_metrics(artifacts, _labels(artifacts), "image")


def bootstrap_replicates(job: ScoreJob, artifacts: Artifacts) -> Replicates:
    from raretokens.metrics.predictions import bootstrap_accuracy

    return {"accuracy.total": bootstrap_accuracy(artifacts.array("logprob"), _labels(artifacts))}


def _labels(artifacts: Artifacts) -> np.ndarray:
    return read_images(artifacts.paths.tokens, "test")[1].astype(int) - len(SPECIALS)


def score_baseline(job: Baseline, corpora: Path, token_files: Path, scores: Path) -> None:
    """Write <name>.json, .csv and .bootstrap.csv of the majority baseline."""
    from reproduction.tasks.evaluation.class_metrics import score_majority

    score_majority(job, corpora / job.corpus, ".txt", scores, {})
