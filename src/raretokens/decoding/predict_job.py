"""What predicting is told."""

from pydantic import PositiveInt

from raretokens.run import Run
from raretokens.sections import Section


class PredictJob(Section):
    run: Run
    block: PositiveInt  # ids of the longest document, or pixels of an image
