"""The record of text classification."""

from raretokens.tasks.record import Headline, Task, Weighed

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
    weighed={
        "accuracy": Weighed("accuracy.total"),
        "I(W)": Weighed("isotropy.total"),
        "told apart": Weighed("popularity.accuracy"),
    },
)
