"""What the rest of the code knows of a task by name alone."""

from dataclasses import dataclass

from raretokens import tasks


@dataclass(frozen=True)
class Task:
    """What a task is called, and what is shown of its runs."""

    title: str
    sides: tuple[str, ...]  # endings of the files of its prepared text: one, or source and target
    pictures: dict[str, bool]  # series of two-dimensional pictures -> whether they are centred
    positions: int | None = None  # mean of a sequence, where most are shorter than the longest


def record(name: str) -> Task:
    """TASK of the task's record.py."""
    return tasks.part(name, "record").TASK
