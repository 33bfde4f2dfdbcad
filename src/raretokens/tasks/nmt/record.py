"""The record of translation."""

from raretokens.tasks.record import Headline, Task

TASK = Task(
    title="Translation",
    text="Text of translation",
    kind="bitext",
    sides=(".source", ".target"),
    tokens=("nmt",),
    output="hypotheses",
    positions=32,
    pictures={"projection": False, "pca": True},
    headline={
        "bleu": Headline("bleu.tokenised", "BLEU"),
        "iw": Headline("isotropy.total", "I(W)", 3),
        "align": Headline("alignsim.total", "AlignSim", 4),
    },
)
