"""What aligning the training text is told."""

from pydantic import PositiveInt

from raretokens.sections import Strict


class Job(Strict):
    pairs: PositiveInt | None = None  # of training sentences, evenly spaced; None for all
