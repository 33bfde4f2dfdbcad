"""What the rest of the code knows of a task by name alone: one object, in its record.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from raretokens import tasks


class Headline(NamedTuple):
    """A number that the first lists of runs have room for."""

    metric: str
    title: str
    digits: int = 2


class Weighed(NamedTuple):
    """A number by which methods are compared."""

    metric: str
    kind: Literal["ratio", "difference"] = "difference"
    needs: tuple[str, ...] = ()  # preconditions (data/paper) without which no method is better or worse by it


@dataclass(frozen=True)
class Task:
    """What a task is called, what its text is, and what is shown of its runs."""

    title: str
    text: str  # what its text is called
    kind: str = "text"  # of it, which says what corpora can serve the task: text, bitext, documents or images
    sides: tuple[str, ...] = (".txt",)  # endings of the files of its prepared text: one, or source and target
    tokens: tuple[str, ...] = ()  # token files that tables are about; the first where a table says nothing
    output: str = ""  # folder of data/ with what a model says of the test text; empty: nothing is asked
    positions: int | None = None  # mean of a sequence, where most are shorter than the longest
    whole_updates: bool = False  # an update is never cut into micro-batches
    pictures: Mapping[str, bool] = field(default_factory=dict)  # two-dimensional series -> whether they are centred
    headline: Mapping[str, Headline] = field(default_factory=dict)  # short name -> number
    weighed: Mapping[str, Weighed] = field(default_factory=dict)  # short title -> by what methods are compared


def record(name: str) -> Task:
    """TASK of the task's record.py."""
    return tasks.part(name, "record").TASK
