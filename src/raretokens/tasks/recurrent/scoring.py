"""What recurrent language models are scored by, from what their evaluation and their training left."""

import json
from functools import cache
from pathlib import Path

import numpy as np

from raretokens.evaluation.artifacts import Artifacts
from raretokens.evaluation.geometry import geometry
from raretokens.evaluation.metrics import bootstrap as resampling
from raretokens.evaluation.metrics.predictions import perplexity, uniq
from raretokens.evaluation.score_files import Signed
from raretokens.tasks.recurrent.job import Score
from raretokens.tokenization.token_files import tokens

WAYS = {"ppl": "plain", "ppl_pointer": "pointer", "ppl_dynamic": "dynamic"}  # metric -> files of the evaluation


def metrics(job: Score, artifacts: Artifacts) -> Signed:
    """Raises UserError where artifacts do not fit."""
    predicted = np.load(artifacts.places.output / "prediction.npy")
    value, signature = uniq(predicted, artifacts.groups)
    of_words = {metric: _perplexity(job, artifacts, way) for metric, way in WAYS.items() if _has(artifacts, way)}
    return {
        **of_words,
        "uniq": (value, signature.replace("of:targets", "of:argmax|state:carried")),
        **geometry(artifacts),
    }


def _perplexity(job: Score, artifacts: Artifacts, way: str) -> tuple[dict[str, float | None], str]:
    """By group on the test text, and of the validation text; the signature names the settings that were chosen on it."""
    logprob, targets = _logprob(artifacts, way, "test")
    by_group, _ = perplexity(logprob, targets, artifacts.groups, window=0, context=0)
    on_valid, targets_valid = _logprob(artifacts, way, "valid")
    of_valid = perplexity(on_valid, targets_valid, artifacts.groups, window=0, context=0)[0]["total"]
    chosen = json.loads((artifacts.places.output / "chosen.json").read_text(encoding="utf-8")).get(way, {})
    named = "".join(f"|{name}:{number:g}" for name, number in chosen.items())
    read = "" if len(targets) == len(tokens(artifacts.places.tokens, "test")) else f"|first:{len(targets)}"
    return {**by_group, "valid": of_valid}, f"log:e|unit:{job.unit}|state:carried|split:test{read}{named}"


def _has(artifacts: Artifacts, way: str) -> bool:
    return (artifacts.places.output / f"{way}-test.npy").is_file()


def _logprob(artifacts: Artifacts, way: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities and targets; dynamic evaluation may have read the start of a text alone."""
    logprob = np.load(artifacts.places.output / f"{way}-{split}.npy")
    return logprob, _targets(artifacts.places.tokens, split)[: len(logprob)]


@cache
def _targets(folder: Path, split: str) -> np.ndarray:
    return np.asarray(tokens(folder, split))


def drawn(job: Score, artifacts: Artifacts) -> resampling.Replicates:
    """Metric -> its values on drawn test sets."""
    replicates = {
        metric: resampling.perplexity(*_logprob(artifacts, way, "test"), artifacts.groups)
        for metric, way in WAYS.items()
        if _has(artifacts, way)
    }
    return {f"{metric}.{name}": values for metric, found in replicates.items() for name, values in found.items()}


def hyperparameters(job: Score) -> dict:
    return {"sequences": job.training.tokens_per_update // job.training.block}
