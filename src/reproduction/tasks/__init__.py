"""Define the tasks, one module each, which the rest of the code loads by name.

The module of a task defines at its top level:

* `describe()`: a Task with its titles, its kind of text and the metrics that reports show
* `Settings`, `Line`: the task's section of params.yaml and a line of its run sheet, where they have additional keys
* `training_data(job, folder)`: training and validation data, which yield the batches of training steps
* `criterion(model, objective)`: the loss, where the scores are not final hidden states times the output embedding
* `run_jobs(parameters, settings, run, score)`: stage and job of each stage after training; score: the fields of a ScoreJob
* `further_jobs(parameters, settings, run, parameters_hash)`: stage and job of each stage that adds metrics to a score file
* `Predict`, `predict(job, folder, trained, into)`: the stage that predicts the test text, if the task has one
* `Score`, `metrics(job, artifacts)`, `bootstrap_replicates(job, artifacts)`, `hyperparameters(job)`: the scores of runs
* `Baseline`, `baseline_job(parameters, settings, corpus)`, `score_baseline(job, corpora, token_files, scores)`: a baseline that
  needs no model, where a corpus is prepared for the task

These definitions do not refer to one another, so that a stage runs again only if its own definitions change. Torch and metrics
are imported inside functions, because reading params.yaml does not need them. `Settings`, `Line`, `criterion`, `Score`,
`hyperparameters`, `further_jobs` and the baseline are optional.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal, NamedTuple

from raretokens.errors import UserError, nearest

SHARED = ("__init__", "parameters")  # files of this folder that are not tasks


class Headline(NamedTuple):
    """A metric for short lists of runs, with its title and number of decimals."""

    metric: str
    title: str
    digits: int = 2


class ComparedMetric(NamedTuple):
    """A metric by which methods are compared."""

    metric: str
    kind: Literal["ratio", "difference"] = "difference"
    needs: tuple[str, ...] = ()  # preconditions (data/paper) for the metric to be meaningful


@dataclass(frozen=True)
class Task:
    """Description of a task: its titles, its kind of text and the metrics that reports show."""

    title: str
    text: str  # title of its text
    kind: str = "text"  # kind of its corpora: text, bitext, documents or images
    sides: tuple[str, ...] = (".txt",)  # suffixes of the prepared files: one, or source and target
    tokens: tuple[str, ...] = ()  # token files that tables report; the first is the default
    positions: int | None = None  # mean sequence length, where most sequences are shorter than the maximum
    whole_steps: bool = False  # whether a training step is never split into micro-batches
    pictures: Mapping[str, bool] = field(default_factory=dict)  # series of projections -> whether they are centred
    headline: Mapping[str, Headline] = field(default_factory=dict)  # short name -> metric
    compared: Mapping[str, ComparedMetric] = field(default_factory=dict)  # short title -> metric


def names() -> tuple[str, ...]:
    """Return the names of the tasks in alphabetical order, i.e. of the modules of this folder that define a task."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in SHARED))


def load(name: str) -> ModuleType:
    """Import the module of a task. Raises UserError where there is no such task."""
    if name not in names():
        raise UserError(f"{name!r} is no task; {nearest(name, names())}")
    return import_module(f"{__name__}.{name}")


@cache
def describe(name: str) -> Task:
    """Return the description of a task."""
    return load(name).describe()
