"""The tasks of the reports, and types that check the names of tasks and tokens."""

from typing import Annotated

from pydantic import AfterValidator

from raretokens.errors import nearest
from reproduction.tasks import describe, names

TASKS = {name: describe(name) for name in names()}
USUAL = "lm"  # the task of a table that declares none
TOKENS = [folder for task in TASKS.values() for folder in task.tokens]


def _is_task(name: str) -> str:
    if name not in TASKS:
        raise ValueError(f"no such task; {nearest(name, TASKS)}")
    return name


def _is_tokens(name: str) -> str:
    if name not in TOKENS:
        raise ValueError(f"no task has such tokens; {nearest(name, TOKENS)}")
    return name


TaskName = Annotated[str, AfterValidator(_is_task)]
TokensName = Annotated[str, AfterValidator(_is_tokens)]
