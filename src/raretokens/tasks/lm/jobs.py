"""What the stages of a language model's run are told."""

from collections.abc import Iterator

from raretokens.corpora.names import corpora, languages
from raretokens.evaluation.config import ProbeJob
from raretokens.run import Run
from raretokens.schema import Section
from raretokens.tasks.lm.job import Baseline, Score
from raretokens.tasks.lm.settings import Settings
from raretokens.tasks.parameters import Parameters
from raretokens.tokenization.config import WordVocabulary


def of_run(parameters: Parameters, settings: Settings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    """Stage and job of what follows training; score: what scoring is told in every task."""
    groups = parameters.tokens[run.tokens].groups
    yield "probe", ProbeJob(run=run, groups=groups, probe=settings.probe, threads=parameters.threads)
    unit = "word" if _is_words(parameters, run.tokens) else "piece"
    yield "score-lm", Score(**score, unit=unit, probe=settings.probe, english=_is_english(parameters, run.tokens))


def baseline(parameters: Parameters, settings: Settings, corpus: str) -> Baseline | None:
    """None where the text is not cut into pieces."""
    tokens = [name for name, declared in parameters.tokens.items() if declared.corpus == corpus]
    pieces = [name for name in tokens if not _is_words(parameters, name)]
    trained = {
        line.tokens for line in parameters.lines("lm").values()
    }  # another task may cut the text into other words
    if not pieces:
        return None
    return Baseline(
        name=parameters.corpora[corpus].baseline,
        task="lm",
        corpus=corpus,
        pieces=pieces[0],
        words=next((name for name in tokens if name not in pieces and name in trained), None),
        groups=parameters.tokens[pieces[0]].groups,
        continuation=settings.probe.continuation,
    )


def _is_english(parameters: Parameters, tokens: str) -> bool:
    """As the sets of word similarity are; the language of one's own text is known where it is declared."""
    corpus = parameters.corpus_of(tokens)
    return (corpus.languages or languages(corpora("text")[corpus.corpus]))["text"].split("-")[0] == "en"


def _is_words(parameters: Parameters, tokens: str) -> bool:
    return isinstance(parameters.tokens[tokens].vocabulary, WordVocabulary)
