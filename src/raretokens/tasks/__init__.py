"""Tasks: a file each, which the rest of the code finds by its name.

A file of this folder defines, at its top level and without reference to one another:

* `describe()`: a Task, with its titles, its kind of text and the numbers that reports show
* `Settings`, `Line`: its section of params.yaml and a line of its run sheet, where they have keys of their own
* `training_data(job, folder)`: training and validation text, cut into the batches of training steps
* `criterion(model, objective)`: the loss, where it is not that of final hidden states times the output embedding
* `run_jobs(parameters, settings, run, score)`: stage and job of the stages after training; score: the fields of a ScoreJob
* `Predict`, `predict(job, folder, trained, into)`: the stage that predicts the test text, where there is one
* `Score`, `metrics(job, artifacts)`, `bootstrap_replicates(job, artifacts)`, `hyperparameters(job)`: what runs are scored by
* `Baseline`, `baseline_job(parameters, settings, corpus)`, `score_baseline(job, corpora, token_files, scores)`: a row of tables
  that needs no model, where a corpus is prepared for the task

So a stage runs again only where its own part has changed. Torch and metrics are imported inside of functions: params.yaml is read
without them. `Settings`, `Line`, `criterion`, `Score`, `hyperparameters` and the baseline may be absent.
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
    """A number that the short lists of runs have room for."""

    metric: str
    title: str
    digits: int = 2


class ComparedMetric(NamedTuple):
    """A number by which methods are compared."""

    metric: str
    kind: Literal["ratio", "difference"] = "difference"
    needs: tuple[str, ...] = ()  # preconditions (data/paper) without which the number ranks no method


@dataclass(frozen=True)
class Task:
    """What a task is called, what its text is, and which numbers of its runs are shown."""

    title: str
    text: str  # what its text is called
    kind: str = "text"  # of its text, which decides what corpora serve the task: text, bitext, documents or images
    sides: tuple[str, ...] = (".txt",)  # suffixes of the files of its prepared text: one, or source and target
    tokens: tuple[str, ...] = ()  # token files that tables are about; the first where a table says nothing
    positions: int | None = None  # mean length of a sequence, where most are shorter than the longest
    whole_updates: bool = False  # whether a training step is never cut into micro-batches
    pictures: Mapping[str, bool] = field(default_factory=dict)  # two-dimensional series -> whether they are centred
    headline: Mapping[str, Headline] = field(default_factory=dict)  # short name -> number
    compared: Mapping[str, ComparedMetric] = field(default_factory=dict)  # short title -> number


def names() -> tuple[str, ...]:
    """The files of this folder that are tasks, in alphabetical order."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in SHARED))


def load(name: str) -> ModuleType:
    """Import the file of a task. Raises UserError where there is no such task."""
    if name not in names():
        raise UserError(f"{name!r} is no task; {nearest(name, names())}")
    return import_module(f"{__name__}.{name}")


@cache
def describe(name: str) -> Task:
    """Return the description of a task."""
    return load(name).describe()
