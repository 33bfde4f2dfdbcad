"""The record of language modelling from right to left."""

from raretokens.tasks.record import Headline, Task

TASK = Task(
    title="Language models, right to left",
    text="Language-model text",
    tokens=("lm",),
    headline={"nll": Headline("valid_nll", "NLL", 3), "iw": Headline("isotropy.total", "I(W)", 3)},
)
