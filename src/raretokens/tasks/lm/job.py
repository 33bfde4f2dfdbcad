"""What scoring language models is told."""

from raretokens.evaluation import config as job
from raretokens.evaluation.config import Continuation, Probe
from raretokens.schema import Section
from raretokens.tokenization.config import Groups


class Score(job.ScoreJob):
    unit: str  # of a token: piece or word
    probe: Probe
    english: bool  # otherwise word similarity is not defined


class Baseline(Section):
    """The text itself, as people wrote it."""

    name: str
    task: str
    corpus: str
    pieces: str  # folder of token files
    words: str | None  # folder of token files of the same text
    groups: Groups  # of the pieces
    continuation: Continuation
