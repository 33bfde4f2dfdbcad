"""The record of classification of images."""

from raretokens.tasks.record import Headline, Task

TASK = Task(
    title="Classification of images",
    text="Classified images",
    kind="images",
    tokens=("images",),
    output="predictions",
    pictures={"projection": False},
    headline={"accuracy": Headline("accuracy.total", "accuracy")},
)
