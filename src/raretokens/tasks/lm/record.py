"""The record of language models."""

from raretokens.tasks.record import Task

TASK = Task(
    title="Language models",
    sides=(".txt",),
    pictures={"projection": False},
)
