"""The record of recurrent language models."""

from raretokens.tasks.record import Headline, Task, Weighed

TASK = Task(
    title="Recurrent language models",
    text="Language-model text",
    tokens=("words", "lm"),
    output="evaluations",
    pictures={"projection": False},
    headline={
        "ppl": Headline("ppl.total", "PPL", 1),
        "ppl_rare": Headline("ppl.rare", "PPL rare", 0),
        "ppl_cache": Headline("ppl_pointer.total", "PPL cache", 1),
        "iw": Headline("isotropy.total", "I(W)", 3),
        "iw_rare": Headline("isotropy.rare", "I(W) rare", 3),
    },
    weighed={
        "PPL": Weighed("ppl.total", "ratio"),
        "PPL rare": Weighed("ppl.rare", "ratio"),
        "Uniq": Weighed("uniq.total"),
        "Uniq rare": Weighed("uniq.rare"),
        "I(W)": Weighed("isotropy.total"),
        "told apart": Weighed("popularity.accuracy"),
    },
)
