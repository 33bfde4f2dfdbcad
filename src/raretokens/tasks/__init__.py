"""Tasks: a folder each, with all that the rest of the code needs to know of it.

* `record.py`: TASK, what it is called, what its text is, and what is shown of it
* `settings.py`: Settings, the section of params.yaml that is called like the task, and Line, a line of its run sheet
* `training.py`: data(job, folder), the training and the validation text cut into updates; CRITERION, a Criterion of its own
  (training/criterion.py), where the loss is not that of final hidden states and the table
* `scoring.py`: Score, what scoring is told; metrics(job, artifacts), what a run is scored by; drawn(job, artifacts), the same on
  drawn test sets; hyperparameters(job)
* `jobs.py`: of_run, what the stages after training are told
* `baseline.py`, and `baseline` in jobs.py: rows of tables that need no model, where a corpus is prepared for the task

A task may have further files of its own.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType

from raretokens.errors import UserError, nearest


def names() -> tuple[str, ...]:
    """The folders of this one with a record, in the order of the alphabet."""
    return tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("*/record.py")))


def part(name: str, what: str) -> ModuleType:
    """A file of a task, imported when it is needed: the training of a run does without the metrics.

    Raises UserError where there is no such task.
    """
    if name not in names():
        raise UserError(f"{name!r} is no task; {nearest(name, names())}")
    return import_module(f"raretokens.tasks.{name}.{what}")
