"""What scoring recurrent language models is told."""

from raretokens.evaluation import config as job


class Score(job.ScoreJob):
    unit: str  # of a token: piece or word
