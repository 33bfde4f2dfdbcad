"""What the stages of a recurrent language model's run are told."""

from collections.abc import Iterator

from raretokens.evaluation.config import EvaluateJob
from raretokens.run import Run
from raretokens.schema import Section
from raretokens.tasks.parameters import Parameters
from raretokens.tasks.recurrent.job import Score
from raretokens.tasks.recurrent.settings import Settings
from raretokens.tokenization.config import WordVocabulary


def of_run(parameters: Parameters, settings: Settings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    """Stage and job of what follows training; score: what scoring is told in every task."""
    yield "evaluate", EvaluateJob(run=run, evaluation=settings.evaluation.of(run.size), threads=parameters.threads)
    is_words = isinstance(parameters.tokens[run.tokens].vocabulary, WordVocabulary)
    yield "score-recurrent", Score(**score, unit="word" if is_words else "piece")
