"""What scoring recurrent language models is told."""

from raretokens.scoring import job


class Score(job.Score):
    unit: str  # of a token: piece or word
