"""What scoring word embeddings is told."""

from raretokens.evaluation import config as job
from raretokens.schema import Section
from raretokens.tokenization.config import Groups


class Score(job.ScoreJob):
    least_count: int  # of a word of the vocabulary


class Baseline(Section):
    """The text itself."""

    name: str
    task: str
    words: str  # folder of token files
    groups: Groups
