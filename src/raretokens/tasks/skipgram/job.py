"""What scoring word embeddings is told."""

from raretokens.scoring import job
from raretokens.sections import Section
from raretokens.subword.groups import Groups


class Score(job.Score):
    least_count: int  # of a word of the vocabulary


class Baseline(Section):
    """The text itself."""

    name: str
    task: str
    words: str  # folder of token files
    groups: Groups
