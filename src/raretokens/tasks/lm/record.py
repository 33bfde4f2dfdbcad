"""The record of language modelling."""

from raretokens.tasks.record import Headline, Task, Weighed

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
    weighed={
        "PPL": Weighed("ppl.total", "ratio"),
        "PPL freq": Weighed("ppl.freq", "ratio"),
        "PPL med": Weighed("ppl.med", "ratio"),
        "PPL rare": Weighed("ppl.rare", "ratio"),
        "PPL among others": Weighed("ppl_among_others.total", "ratio"),
        "Uniq": Weighed("uniq.total"),
        "Uniq rare": Weighed("uniq.rare"),
        "I(W)": Weighed("isotropy.total"),
        "I(W) freq": Weighed("isotropy.freq"),
        "I(W) rare": Weighed("isotropy.rare"),
        "IsoScore": Weighed("iso_score.total"),
        "cosine rare-freq": Weighed("rare_freq_cosine"),
        "MEN": Weighed("spearman.men", needs=("men-learnt",)),
        "WS353": Weighed("spearman.ws353", needs=("ws353-learnt",)),
        "RW": Weighed("spearman.rw", needs=("rw-learnt",)),
    },
)
