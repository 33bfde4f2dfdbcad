"""The record of translation."""

from raretokens.tasks.record import Headline, Task, Weighed

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
    weighed={
        "BLEU": Weighed("bleu.tokenised"),
        "chrF2": Weighed("chrf"),
        "I(W)": Weighed("isotropy.total"),
        "I(W) freq": Weighed("isotropy.freq"),
        "I(W) rare": Weighed("isotropy.rare"),
        "IsoScore": Weighed("iso_score.total"),
        "S(w)": Weighed("mean_cosine"),
        "AlignSim": Weighed("alignsim.total"),
        "AlignSim rare": Weighed("alignsim.rare"),
    },
)
