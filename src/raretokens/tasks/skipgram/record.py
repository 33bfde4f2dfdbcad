"""The record of skip-gram embeddings."""

from raretokens.tasks.record import Headline, Task, Weighed

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
    weighed={
        "MEN": Weighed("spearman.men", needs=("men-learnt",)),
        "WS353": Weighed("spearman.ws353", needs=("ws353-learnt",)),
        "RW": Weighed("spearman.rw", needs=("rw-learnt",)),
        "SimLex": Weighed("spearman.simlex"),
        "I(W)": Weighed("isotropy.total"),
        "told apart": Weighed("popularity.accuracy"),
    },
)
