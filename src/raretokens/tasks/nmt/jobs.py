"""What the stages of a translation run are told."""

from collections.abc import Iterator

from raretokens.evaluation.config import Decoding, TranslateJob
from raretokens.run import Run
from raretokens.schema import Section
from raretokens.tasks.nmt.job import Baseline, Score, Texts
from raretokens.tasks.nmt.settings import Settings
from raretokens.tasks.parameters import Parameters


def of_run(parameters: Parameters, settings: Settings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    """Stage and job of what follows training; score: what scoring is told in every task."""
    texts = _texts(parameters, settings.decoding_of(run.size), parameters.tokens[run.tokens].corpus)
    training = score["training"]
    yield (
        "translate",
        TranslateJob(
            run=run,
            decoding=texts.decoding,
            tests=["test", *texts.extra_tests],
            longest=training.block,
            keep=training.keep,
            threads=parameters.threads,
        ),
    )
    aligned = parameters.alignments[run.tokens].pairs
    yield "score-nmt", Score(**score, named=settings.named, texts=texts, aligned=aligned)


def baseline(parameters: Parameters, settings: Settings, corpus: str) -> Baseline | None:
    """None where the text is not cut into pieces."""
    pieces = next((name for name, declared in parameters.tokens.items() if declared.corpus == corpus), None)
    name, texts = parameters.corpora[corpus].baseline, _texts(parameters, settings.decoding, corpus)
    return Baseline(name=name, task="nmt", pieces=pieces, texts=texts) if pieces else None


def _texts(parameters: Parameters, decoding: Decoding, corpus: str) -> Texts:
    return Texts(corpus=corpus, decoding=decoding, extra_tests=parameters.corpora[corpus].extra_tests)
