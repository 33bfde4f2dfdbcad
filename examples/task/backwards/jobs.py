"""What the stages of a run are told after training."""

from collections.abc import Iterator

from raretokens.evaluation.config import ScoreJob as Score
from raretokens.run import Run
from raretokens.schema import Section
from raretokens.tasks.parameters import Parameters
from raretokens.tasks.settings import TaskSettings


def of_run(parameters: Parameters, settings: TaskSettings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    """Stage and job; score: what scoring is told in every task."""
    yield "score-backwards", Score(**score)
