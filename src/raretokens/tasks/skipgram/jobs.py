"""What the stages of a skip-gram run are told after training."""

from collections.abc import Iterator

from raretokens.run import Run
from raretokens.schema import Section
from raretokens.tasks.parameters import Parameters
from raretokens.tasks.skipgram.job import Baseline, Score
from raretokens.tasks.skipgram.settings import Settings


def of_run(parameters: Parameters, settings: Settings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    """Stage and job; score: what scoring is told in every task."""
    vocabulary = parameters.tokens[run.tokens].vocabulary
    yield "score-skipgram", Score(**score, named=settings.named, least_count=getattr(vocabulary, "least_count", 1))


def baseline(parameters: Parameters, settings: Settings, corpus: str) -> Baseline | None:
    """None where the text is not cut."""
    tokens = [name for name, declared in parameters.tokens.items() if declared.corpus == corpus]
    if not tokens:
        return None
    groups = parameters.tokens[tokens[0]].groups
    return Baseline(name=parameters.corpora[corpus].baseline, task="skipgram", words=tokens[0], groups=groups)
