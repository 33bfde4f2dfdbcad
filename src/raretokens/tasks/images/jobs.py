"""What the stages of a run on images are told."""

from collections.abc import Iterator

from raretokens.evaluation.config import Majority, PredictJob
from raretokens.evaluation.config import ScoreJob as Score
from raretokens.run import Run
from raretokens.schema import Section
from raretokens.tasks.parameters import Parameters
from raretokens.tasks.settings import TaskSettings


def of_run(parameters: Parameters, settings: TaskSettings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    """Stage and job of what follows training; score: what scoring is told in every task."""
    yield "predict-images", PredictJob(run=run, block=score["training"].block)
    yield "score-images", Score(**score, markers=False)


def baseline(parameters: Parameters, settings: TaskSettings, corpus: str) -> Majority:
    return Majority(name=parameters.corpora[corpus].baseline, task="images", corpus=corpus)
