"""The record of text classification."""

from raretokens.tasks.record import Headline, Task

TASK = Task(
    title="Text classification",
    text="Classified documents",
    kind="documents",
    tokens=("documents",),
    output="predictions",
    whole_updates=True,
    pictures={"projection": False},
    headline={
        "accuracy": Headline("accuracy.total", "accuracy"),
        "iw": Headline("isotropy.total", "I(W)", 3),
    },
)
