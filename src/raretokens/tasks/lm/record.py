"""The record of language models."""

from raretokens.tasks.record import Task

TASK = Task(
    title="Language models",
    sides=(".txt",),
    pictures={"projection": False},
    headline={
        "ppl": "ppl.total",
        "ppl_rare": "ppl.rare",
        "iw": "isotropy.total",
        "iw_rare": "isotropy.rare",
        "men": "spearman.men",
    },
)
