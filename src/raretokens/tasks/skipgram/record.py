"""The record of skip-gram embeddings."""

from raretokens.tasks.record import Headline, Task

TASK = Task(
    title="Skip-gram embeddings",
    text="Text of the word embeddings",
    tokens=("skipgram",),
    pictures={"projection": False},
    headline={
        "ws353": Headline("spearman.ws353", "WS353"),
        "rw": Headline("spearman.rw", "RW"),
        "iw": Headline("isotropy.total", "I(W)", 3),
        "popularity": Headline("popularity.accuracy", "told apart", 1),
    },
)
