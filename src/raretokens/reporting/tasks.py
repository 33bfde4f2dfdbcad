"""What reports know of each task: a further task is one entry here, and nothing else in this package."""

from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from raretokens.errors import nearest


class Headline(NamedTuple):
    """A number that the first lists of runs have room for."""

    metric: str
    title: str
    digits: int = 2


class ReportedTask(NamedTuple):
    title: str
    text: str  # what its text is called
    data: str  # the score file that needs no model
    tokens: tuple[str, ...]  # folders of data/tokens that its runs are trained on; the first where nothing is said
    headline: dict[str, Headline]  # short name -> number
    absent: str = ""  # why no run sheet has a run of it


TASKS = {
    "lm": ReportedTask(
        "Language models",
        "Language-model text",
        data="human",
        tokens=("lm", "words"),
        headline={
            "ppl": Headline("ppl.total", "PPL", 1),
            "ppl_rare": Headline("ppl.rare", "PPL rare", 0),
            "iw": Headline("isotropy.total", "I(W)", 3),
            "iw_rare": Headline("isotropy.rare", "I(W) rare", 3),
            "men": Headline("spearman.men", "MEN"),
        },
    ),
    "nmt": ReportedTask(
        "Translation",
        "Text of translation",
        data="copy",
        tokens=("nmt",),
        headline={
            "bleu": Headline("bleu.tokenised", "BLEU"),
            "iw": Headline("isotropy.total", "I(W)", 3),
            "align": Headline("alignsim.total", "AlignSim", 4),
        },
    ),
    "skipgram": ReportedTask(
        "Skip-gram embeddings",
        "Text of skip-gram embeddings",
        data="text",
        tokens=("skipgram",),
        headline={},
        absent="skip-gram embeddings are not built yet",
    ),
    "classify": ReportedTask(
        "Text classification",
        "Text of classification",
        data="labels",
        tokens=("classify",),
        headline={},
        absent="text classifiers are not built yet",
    ),
}
HEADLINES = {short: number for task in TASKS.values() for short, number in task.headline.items()}
TOKENS = [folder for task in TASKS.values() for folder in task.tokens]


def _is_task(name: str) -> str:
    if name not in TASKS:
        raise ValueError(f"no such task; {nearest(name, TASKS)}")
    return name


def _is_tokens(name: str) -> str:
    if name not in TOKENS:
        raise ValueError(f"no task has such tokens; {nearest(name, TOKENS)}")
    return name


TaskName = Annotated[str, AfterValidator(_is_task)]
TokensName = Annotated[str, AfterValidator(_is_tokens)]
