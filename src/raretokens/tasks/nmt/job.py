"""What scoring translations is told."""

from raretokens.evaluation import config as job
from raretokens.evaluation.config import Decoding
from raretokens.schema import Section


class Texts(Section):
    """How the translations were made, and of which test sets."""

    corpus: str  # folder of the prepared text
    decoding: Decoding
    extra_tests: list[str]


class Score(job.ScoreJob):
    texts: Texts
    aligned: int | None  # pairs that the aligner learnt from; None: all


class Baseline(Section):
    """The source taken for its own translation."""

    name: str
    task: str
    pieces: str  # folder of token files
    texts: Texts
