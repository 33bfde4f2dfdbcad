"""Recurrent language modelling: predict each token of a text in order, with the state carried from token to token."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raretokens.metrics.score_files import Metrics, Replicates
from raretokens.schema import Section
from reproduction.corpora.tokenization.token_files import tokens
from reproduction.run import Run
from reproduction.tasks import ComparedMetric, Headline, Task
from reproduction.tasks.evaluation.artifacts import Artifacts
from reproduction.tasks.evaluation.job_specs import RecurrentEvaluation, RecurrentPredictJob, ScoreJob
from reproduction.tasks.parameters import Parameters, TaskSettings
from reproduction.training.recipe import TrainJob

if TYPE_CHECKING:
    from torch import nn

    from raretokens.loss.objective import Objective
    from reproduction.training.criterion import Carried
    from reproduction.training.token_batches import Columns

VALIDATED = 10  # columns of the validation text
FILES = {"ppl": "plain", "ppl_pointer": "pointer", "ppl_dynamic": "dynamic"}  # metric -> name of the evaluation's files
Predict = RecurrentPredictJob


def describe() -> Task:
    return Task(
        title="Recurrent language models",
        text="Language-model text",
        tokens=("words", "lm"),
        pictures={"projection": False},
        headline={
            "ppl": Headline("ppl.total", "PPL", 1),
            "ppl_rare": Headline("ppl.rare", "PPL rare", 0),
            "ppl_cache": Headline("ppl_pointer.total", "PPL cache", 1),
            "iw": Headline("isotropy.total", "I(W)", 3),
            "iw_rare": Headline("isotropy.rare", "I(W) rare", 3),
        },
        compared={
            "PPL": ComparedMetric("ppl.total", "ratio"),
            "PPL rare": ComparedMetric("ppl.rare", "ratio"),
            "Uniq": ComparedMetric("uniq.total"),
            "Uniq rare": ComparedMetric("uniq.rare"),
            "I(W)": ComparedMetric("isotropy.total"),
            "frequency-probe accuracy": ComparedMetric("frequency_probe.accuracy"),
        },
    )


class Settings(TaskSettings):
    evaluation: RecurrentEvaluation


class Score(ScoreJob):
    unit: str  # unit of a token: `piece` (subword token) or `word`


def training_data(job: TrainJob, folder: Path) -> tuple["Columns", "Columns"]:
    from reproduction.training.token_batches import Columns, columns_of

    training = job.training
    columns = columns_of(training.tokens_per_step, training.block)
    batches = Columns(tokens(folder, "train"), training.block, columns, job.run.seed)
    return batches, Columns(tokens(folder, "valid"), training.block, VALIDATED, first=training.validation_tokens)


def criterion(model: "nn.Module", objective: "Objective") -> "Carried":
    from reproduction.training.criterion import Carried

    return Carried(model, objective)


def run_jobs(parameters: Parameters, settings: Settings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    evaluation = settings.evaluation.for_size(run.model)
    yield "predict-recurrent", Predict(run=run, evaluation=evaluation, threads=parameters.threads)
    yield "score-recurrent", Score(**score, unit=parameters.tokens[run.tokens].unit)


def predict(job: Predict, folder: Path, trained: Path, into: Path) -> None:
    """Write log-probabilities of validation and test text, and the selected settings (folder: token files)."""
    from reproduction.tasks.evaluation.recurrent import write_predictions

    write_predictions(job, folder, trained, into)


def metrics(job: Score, artifacts: Artifacts) -> Metrics:
    from raretokens.metrics.predictions import uniq
    from reproduction.tasks.evaluation.geometry import geometry

    value, signature = uniq(artifacts.array("prediction"), artifacts.groups)
    return {
        **{metric: _perplexity(job, artifacts, file) for metric, file in _files(artifacts).items()},
        "uniq": (value, signature.replace("of:targets", "of:argmax|state:carried")),
        **geometry(artifacts),
    }


def bootstrap_replicates(job: Score, artifacts: Artifacts) -> Replicates:
    from raretokens.metrics.bootstrap import perplexity

    found = {
        metric: perplexity(*_logprob(artifacts, file, "test"), artifacts.groups)
        for metric, file in _files(artifacts).items()
    }
    return {f"{metric}.{name}": values for metric, by_group in found.items() for name, values in by_group.items()}


def hyperparameters(job: Score) -> dict:
    return {"sequences": job.training.tokens_per_step // job.training.block}


def _files(artifacts: Artifacts) -> dict[str, str]:
    """Return metric -> file name, for the kinds of evaluation that were run."""
    return {
        metric: file for metric, file in FILES.items() if (artifacts.paths.predictions / f"{file}-test.npy").is_file()
    }


def _perplexity(job: Score, artifacts: Artifacts, file: str) -> tuple[dict[str, float | None], str]:
    """Perplexity by group on the test text and in total on the validation text.

    The signature contains the settings that were selected on the validation text.
    """
    from raretokens.metrics.predictions import perplexity

    logprob, targets = _logprob(artifacts, file, "test")
    by_group, _ = perplexity(logprob, targets, artifacts.groups, window=0, context=0)
    on_valid = perplexity(*_logprob(artifacts, file, "valid"), artifacts.groups, window=0, context=0)[0]["total"]
    chosen = json.loads((artifacts.paths.predictions / "chosen.json").read_text(encoding="utf-8")).get(file, {})
    settings = "".join(f"|{name}:{number:g}" for name, number in chosen.items())
    first = "" if len(targets) == len(tokens(artifacts.paths.tokens, "test")) else f"|first:{len(targets)}"
    return {**by_group, "valid": on_valid}, f"log:e|unit:{job.unit}|state:carried|split:test{first}{settings}"


def _logprob(artifacts: Artifacts, file: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return log-probabilities and targets. Dynamic evaluation may cover only the start of a text."""
    logprob = artifacts.array(f"{file}-{split}")
    return logprob, _targets(artifacts.paths.tokens, split)[: len(logprob)]


@cache
def _targets(folder: Path, split: str) -> np.ndarray:
    return np.asarray(tokens(folder, split))
