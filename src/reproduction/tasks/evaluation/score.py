"""Score a run: compute its metrics, neighbours, training curves and points of figures, and write its score files."""

import math
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from raretokens.errors import UserError
from raretokens.metrics import neighbours
from raretokens.metrics.score_files import (
    Metrics,
    Point,
    layout,
    write_bootstrap,
    write_json,
    write_points,
    write_rows,
)
from raretokens.metrics.spectrum import projection, singular_values
from reproduction.tasks.evaluation import history
from reproduction.tasks.evaluation.artifacts import Artifacts, RunPaths
from reproduction.tasks.evaluation.history import HEADER, SnapshotGeometry
from reproduction.tasks.evaluation.job_specs import ScoreJob
from reproduction.training.recipe import Training

TRAINING = ("steps", "tokens_per_step", "peak_lr", "warmup", "weight_decay", "label_smoothing")
FINAL, EARLY = 200, 100  # projected points per group: for the scored matrix, for a snapshot


def score(job: ScoreJob, task: ModuleType, paths: RunPaths) -> None:
    """Write <run>.json, <run>.csv and <run>.bootstrap.csv to paths.scores and <run>.csv to paths.curves.

    task: Module of the run's task.

    Raises:
        UserError: Artifacts are inconsistent with each other.
        OSError: An artifact is missing.
    """
    run, artifacts = job.run, Artifacts.read(job, paths)
    metrics, replicates = task.metrics(job, artifacts), task.bootstrap_replicates(job, artifacts)
    of_task = task.hyperparameters(job) if hasattr(task, "hyperparameters") else {}
    rows = artifacts.embedding, artifacts.vocabulary.tokens, artifacts.groups
    near, signature = neighbours.neighbours(*rows, job.queries)
    ranks = neighbours.named_ranks(*rows, job.neighbour_ranks)
    series, snapshots = points(artifacts, job)
    common = training_progress(artifacts) | history.course_metrics(artifacts, snapshots)
    common |= _neighbour_metrics(job, artifacts, near, ranks)
    # The metrics of the task take precedence.
    metrics |= {path: value for path, value in common.items() if path not in metrics}
    facts = {"run": run.name, "task": run.task, "objective": run.objective, "model": run.model, "seed": run.seed}
    parameters = hyperparameters(artifacts, job.training, of_task)
    tree = layout(facts, metrics, near, run.options, parameters)
    tree["parameters_hash"] = job.parameters_hash
    tree["neighbour_ranks"] = [[query, listed] for query, listed in ranks.items()]
    tree["signatures"].append(["neighbours", signature])
    write_points(paths.scores / f"{run.name}.csv", series)
    write_bootstrap(paths.scores / f"{run.name}.bootstrap.csv", replicates)
    write_rows(paths.curves / f"{run.name}.csv", HEADER, history.curve_rows(snapshots, artifacts.log))
    write_json(paths.scores / f"{run.name}.json", tree)


def training_progress(artifacts: Artifacts) -> Metrics:
    """Return the number of training epochs, and the validation NLL divided by the NLL of a uniform distribution."""
    summary, uniform = artifacts.summary, math.log(artifacts.vocabulary.types)
    return {
        "training.epochs": (summary["updates"] / summary["updates_per_epoch"], "of:training-text"),
        "training.nll_to_uniform": (summary["kept"]["valid_nll"] / uniform, "log:e|split:valid|over:ln(types)"),
    }


def hyperparameters(artifacts: Artifacts, training: Training, of_task: dict[str, Any]) -> list[list]:
    """Return [name, value] pairs, with `vocabulary` (rows of the embedding matrix) and `parameters` (trained parameters)."""
    facts = artifacts.run.shape | {"vocabulary": len(artifacts.vocabulary), "parameters": artifacts.summary["parameters"]}
    facts |= {name: getattr(training, name) for name in TRAINING} | {"betas": "/".join(map(str, training.betas))}
    return [[name, value] for name, value in {**facts, **of_task, "precision": training.precision}.items()]


def points(artifacts: Artifacts, job: ScoreJob) -> tuple[list[Point], list[SnapshotGeometry]]:
    """Return the points of a run's figures (curves and projections), and the geometry of its snapshots."""
    embedding, groups = artifacts.embedding, artifacts.groups
    pictures, early = (
        {name: job.pictures[name] for name in job.pictures if name + at in job.clouds} for at in ("", "@")
    )
    series = [*_projections(artifacts, pictures, embedding, "", FINAL)]
    snapshots = []
    for step, snapshot in artifacts.snapshots():
        snapshots.append(history.measure_snapshot(step, snapshot, groups))
        if step in job.projection_steps:
            series += _projections(artifacts, early, snapshot, f"@{step}", EARLY)
    _check_steps(artifacts, job.projection_steps, [now.step for now in snapshots])
    values = singular_values(embedding, groups)[0]
    series += [("singular_values", "total", rank, value) for rank, value in enumerate(values, start=1)]
    series += history.geometry_points(snapshots)
    for query in job.queries if "similarity:" in job.clouds else ():
        curve = neighbours.similarity_curve(embedding, artifacts.vocabulary, groups, query)
        series += [(f"similarity:{query}", group, rank, cosine) for rank, cosine, group in curve]
    return series + history.log_points(artifacts.log), snapshots


def _projections(
    artifacts: Artifacts, pictures: Mapping[str, bool], embedding: np.ndarray, suffix: str, sample: int
) -> Iterator[Point]:
    for name, centred in pictures.items():
        for group, coordinates in projection(embedding, artifacts.groups, sample=sample, centred=centred)[0].items():
            yield from ((name + suffix, group, x, y) for x, y in coordinates)


def _check_steps(artifacts: Artifacts, steps: Sequence[int], kept: list[int]) -> None:
    """Raise UserError where the run passed one of these training steps without writing a snapshot."""
    missing = [step for step in steps if step not in kept and step <= max(kept, default=0)]
    if missing:
        task, name = artifacts.run.task, artifacts.run.name
        raise UserError(
            f"{task}.projection_steps: {missing}; the snapshots of {name} are of steps {', '.join(map(str, kept))}"
        )


def _neighbour_metrics(job: ScoreJob, artifacts: Artifacts, near: dict, ranks: dict) -> Metrics:
    """Return the metrics of the queries' neighbours."""
    vocabulary, groups = artifacts.vocabulary, artifacts.groups
    signed: Metrics = {
        "similarity.rank_correlation": neighbours.rank_correlation(artifacts.embedding, vocabulary, groups, job.queries),
        "neighbours.same_beginning": neighbours.same_beginning(near),
    }
    return signed | ({"named_ranks": neighbours.mean_ranks(ranks, vocabulary, groups)} if ranks else {})
