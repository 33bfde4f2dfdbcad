"""The record of translation."""

from raretokens.tasks.record import Task

TASK = Task(
    title="Translation",
    sides=(".source", ".target"),
    pictures={"projection": False, "pca": True},
    positions=32,
)
