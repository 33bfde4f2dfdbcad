"""The record of language modelling."""

from raretokens.tasks.record import Headline, Task

TASK = Task(
    title="Language models",
    text="Language-model text",
    tokens=("lm", "words"),
    output="probes",
    pictures={"projection": False},
    headline={
        "ppl": Headline("ppl.total", "PPL", 1),
        "ppl_rare": Headline("ppl.rare", "PPL rare", 0),
        "iw": Headline("isotropy.total", "I(W)", 3),
        "iw_rare": Headline("isotropy.rare", "I(W) rare", 3),
        "men": Headline("spearman.men", "MEN"),
    },
)
