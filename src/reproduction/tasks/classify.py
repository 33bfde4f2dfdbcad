"""Text classification: predict the class of a document from the embeddings of its words."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raretokens.errors import UserError
from raretokens.metrics.score_files import Metrics, Replicates
from raretokens.schema import Section
from reproduction.corpora.tokenization.token_files import read_labels, read_meta, tokens
from reproduction.run import Run
from reproduction.tasks import ComparedMetric, Headline, Task
from reproduction.tasks.evaluation.artifacts import Artifacts, lines
from reproduction.tasks.evaluation.job_specs import ClassifierPredictJob, MajorityBaseline, ScoreJob
from reproduction.tasks.parameters import Parameters, TaskSettings
from reproduction.training.recipe import TrainJob

if TYPE_CHECKING:
    from torch import nn

    from raretokens.loss.objective import Objective
    from reproduction.training.criterion import ClassScores
    from reproduction.training.example_batches import Documents

Baseline = MajorityBaseline
Predict = ClassifierPredictJob


def describe() -> Task:
    return Task(
        title="Text classification",
        text="Classified documents",
        kind="documents",
        tokens=("documents",),
        whole_steps=True,
        pictures={"projection": False},
        headline={
            "accuracy": Headline("accuracy.total", "accuracy"),
            "iw": Headline("isotropy.total", "I(W)", 3),
        },
        compared={
            "accuracy": ComparedMetric("accuracy.total"),
            "I(W)": ComparedMetric("isotropy.total"),
            "frequency-probe accuracy": ComparedMetric("frequency_probe.accuracy"),
        },
    )


def training_data(job: TrainJob, folder: Path) -> tuple["Documents", "Documents"]:
    """Return training and validation documents.

    Raises:
        UserError: The number of classes differs between the model and the text.
    """
    from reproduction.training.example_batches import Documents

    run, training, classes = job.run, job.training, read_meta(folder)["classes"]
    if run.shape["classes"] != len(classes):
        raise UserError(
            f"{run.task}.models.{run.model}.classes: {run.shape['classes']}; "
            f"{run.tokens} has {len(classes)}: {', '.join(classes)}"
        )
    train, valid = ((tokens(folder, split), read_labels(folder, split)) for split in ("train", "valid"))
    batches = Documents(*train, training.block, training.tokens_per_step, run.seed)
    return batches, Documents(*valid, training.block, first=training.validation_tokens)


def criterion(model: "nn.Module", objective: "Objective") -> "ClassScores":
    from reproduction.training.criterion import ClassScores

    return ClassScores(model, objective)


def run_jobs(parameters: Parameters, settings: TaskSettings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    yield f"predict-{run.task}", Predict(run=run, block=score["training"].block)
    yield f"score-{run.task}", ScoreJob(**score)


def baseline_job(parameters: Parameters, settings: TaskSettings, corpus: str) -> Baseline:
    declared = parameters.corpora[corpus]
    return Baseline(name=declared.baseline, task=declared.task, corpus=corpus)


def predict(job: Predict, folder: Path, trained: Path, into: Path) -> None:
    """Write log-probabilities of the test documents; folder: folder of the token files."""
    from reproduction.tasks.evaluation.classification import write_predictions

    write_predictions(job, _predict_documents, folder, trained, into)


def _predict_documents(model: "nn.Module", folder: Path, block: int) -> np.ndarray:
    """Return natural log-probabilities of test documents x classes, float32."""
    from reproduction.tasks.evaluation.classification import TOKENS_AT_ONCE
    from reproduction.training.example_batches import Documents

    test = Documents(tokens(folder, "test"), read_labels(folder, "test"), block)
    found = [
        model(batch.inputs[0].to(model.embedding.device))[:, 0].float().log_softmax(1).cpu().numpy()
        for batch in test.everything(TOKENS_AT_ONCE)
    ]
    by_length = np.concatenate(found)
    ordered = np.empty_like(by_length)
    ordered[test.by_length] = by_length
    return ordered


def metrics(job: ScoreJob, artifacts: Artifacts) -> Metrics:
    from reproduction.tasks.evaluation.class_metrics import class_metrics

    return class_metrics(artifacts, _labels(artifacts), "document")


def bootstrap_replicates(job: ScoreJob, artifacts: Artifacts) -> Replicates:
    from raretokens.metrics.predictions import bootstrap_accuracy

    return {"accuracy.total": bootstrap_accuracy(artifacts.array("logprob"), _labels(artifacts))}


def _labels(artifacts: Artifacts) -> np.ndarray:
    return np.asarray(read_labels(artifacts.paths.tokens, "test"))


def score_baseline(job: Baseline, corpora: Path, token_files: Path, scores: Path) -> None:
    """Write <name>.json, .csv and .bootstrap.csv of the majority baseline, with the lengths of the documents."""
    from reproduction.tasks.evaluation.class_metrics import SPLITS, score_majority
    from reproduction.tasks.evaluation.text import documents

    corpus = corpora / job.corpus
    lengths = {split: [len(text.split()) for text in lines(corpus / f"{split}.txt")] for split in SPLITS}
    classes = len({*lines(corpus / "train.labels")})
    score_majority(job, corpus, ".labels", scores, {"documents": documents(lengths, classes)})
