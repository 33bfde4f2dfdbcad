"""Language modelling: predict each token from the tokens before it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raretokens.errors import UserError
from raretokens.metrics.score_files import Metrics, Replicates
from raretokens.schema import Section
from raretokens.vocabulary import GROUP_NAMES, RARE, VOCABULARY, Vocabulary
from reproduction.corpora.registry import corpus_languages, known_corpora
from reproduction.corpora.tokenization.settings import Groups
from reproduction.corpora.tokenization.token_files import read_splits, tokens
from reproduction.run import Run
from reproduction.tasks import ComparedMetric, Headline, Task
from reproduction.tasks.evaluation.artifacts import Artifacts
from reproduction.tasks.evaluation.job_specs import (
    Continuation,
    DecompositionJob,
    LanguageModelEvaluation,
    LanguageModelPredictJob,
    ScoreJob,
)
from reproduction.tasks.parameters import Parameters, TaskSettings
from reproduction.training.recipe import TrainJob

if TYPE_CHECKING:
    from raretokens.metrics.similarity import EncodeWord, Pair
    from reproduction.training.token_batches import Blocks

Predict = LanguageModelPredictJob


def describe() -> Task:
    return Task(
        title="Language models",
        text="Language-model text",
        tokens=("lm", "words"),
        pictures={"projection": False},
        headline={
            "ppl": Headline("ppl.total", "PPL", 1),
            "ppl_rare": Headline("ppl.rare", "PPL rare", 0),
            "iw": Headline("isotropy.total", "I(W)", 3),
            "iw_rare": Headline("isotropy.rare", "I(W) rare", 3),
            "men": Headline("spearman.men", "MEN"),
        },
        compared={
            "PPL": ComparedMetric("ppl.total", "ratio"),
            "PPL freq": ComparedMetric("ppl.freq", "ratio"),
            "PPL med": ComparedMetric("ppl.med", "ratio"),
            "PPL rare": ComparedMetric("ppl.rare", "ratio"),
            "PPL excluding rare": ComparedMetric("ppl_excluding_rare.total", "ratio"),
            "Uniq": ComparedMetric("uniq.total"),
            "Uniq rare": ComparedMetric("uniq.rare"),
            "I(W)": ComparedMetric("isotropy.total"),
            "I(W) freq": ComparedMetric("isotropy.freq"),
            "I(W) rare": ComparedMetric("isotropy.rare"),
            "IsoScore": ComparedMetric("iso_score.total"),
            "cosine rare-freq": ComparedMetric("rare_freq_cosine"),
            "MEN": ComparedMetric("spearman.men", needs=("men-learnt",)),
            "WS353": ComparedMetric("spearman.ws353", needs=("ws353-learnt",)),
            "RW": ComparedMetric("spearman.rw", needs=("rw-learnt",)),
        },
    )


class Settings(TaskSettings):
    evaluation: LanguageModelEvaluation


class Score(ScoreJob):
    unit: str  # unit of a token: `piece` (subword token) or `word`
    evaluation: LanguageModelEvaluation
    english: bool  # whether the text is English, which the word-similarity sets require


class Baseline(Section):
    """Job spec of the human baseline, which is the text itself."""

    name: str
    task: str
    corpus: str
    tokens: str  # folder of token files
    words: str | None  # folder of token files of the same text in words
    groups: Groups  # frequency groups of the subword tokens
    continuation: Continuation


def training_data(job: TrainJob, folder: Path) -> tuple["Blocks", "Blocks"]:
    from reproduction.training.token_batches import Blocks

    training = job.training
    batches = Blocks(tokens(folder, "train"), training.block, training.tokens_per_step, job.run.seed)
    return batches, Blocks(tokens(folder, "valid"), training.block, first=training.validation_tokens)


def run_jobs(parameters: Parameters, settings: Settings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    groups = parameters.tokens[run.tokens].groups
    run = _with_softcap(run)
    yield "predict-lm", Predict(run=run, groups=groups, evaluation=settings.evaluation, threads=parameters.threads)
    unit, is_english = parameters.tokens[run.tokens].unit, _is_english(parameters, run.tokens)
    yield "score-lm", Score(**score, unit=unit, evaluation=settings.evaluation, english=is_english)


def further_jobs(
    parameters: Parameters, settings: Settings, run: Run, parameters_hash: str
) -> Iterator[tuple[str, Section]]:
    job = DecompositionJob(
        run=_with_softcap(run),
        groups=parameters.tokens[run.tokens].groups,
        evaluation=settings.evaluation,
        unit=parameters.tokens[run.tokens].unit,
        threads=parameters.threads,
        logit_bias=run.objective == "mle",
        threshold=_threshold(run),
        parameters_hash=parameters_hash,
    )
    yield "decompose-lm", job


def _with_softcap(run: Run) -> Run:
    """Return the run with the soft-cap that its predictions need, also where the objective's default is meant."""
    from raretokens.objectives.registry import known

    softcap = (known()[run.objective].defaults | run.options).get("softcap")
    return run if softcap is None else run.model_copy(update={"options": run.options | {"softcap": softcap}})


def _threshold(run: Run) -> float | None:
    """Return the mean count per training step below which the objective of a run calls a type rare, or None for others."""
    from raretokens.objectives.registry import known

    options = known()[run.objective].defaults | run.options
    return options["alpha"] * options["alpha_scale"] if {"alpha", "alpha_scale"} <= options.keys() else None


def baseline_job(parameters: Parameters, settings: Settings, corpus: str) -> Baseline | None:
    """Return the job spec of the baseline, or None where the text has no token files of subword tokens."""
    tokens = [name for name, declared in parameters.tokens.items() if declared.corpus == corpus]
    subwords = [name for name in tokens if parameters.tokens[name].unit == "piece"]
    if not subwords:
        return None
    # Another task may use a different vocabulary of words for the same text.
    trained = {line.tokens for line in parameters.lines("lm").values()}
    return Baseline(
        name=parameters.corpora[corpus].baseline,
        task="lm",
        corpus=corpus,
        tokens=subwords[0],
        words=next((name for name in tokens if name not in subwords and name in trained), None),
        groups=parameters.tokens[subwords[0]].groups,
        continuation=settings.evaluation.continuation,
    )


def _is_english(parameters: Parameters, tokens: str) -> bool:
    """Return whether the text is English, like the word-similarity sets. A user's own text declares its language."""
    corpus = parameters.corpus_of(tokens)
    return (corpus.languages or corpus_languages(known_corpora("text")[corpus.corpus]))["text"].split("-")[0] == "en"


def predict(job: Predict, folder: Path, trained: Path, into: Path) -> None:
    """Write log-probabilities, most probable tokens and greedy continuations of the test text (folder: token files)."""
    from reproduction.tasks.evaluation.language_model import write_predictions

    write_predictions(job, folder, trained, into)


def metrics(job: Score, artifacts: Artifacts) -> Metrics:
    """Return metric -> (value, signature) of a run. Raises ValueError where predictions and test text differ in length."""
    from raretokens.metrics import predictions
    from reproduction.tasks.evaluation.geometry import geometry

    settings, groups = job.evaluation, artifacts.groups
    targets = tokens(artifacts.paths.tokens, "test")
    reach = {"window": settings.window, "context": settings.context, "unit": job.unit}
    logprob, rare = artifacts.array("logprob"), artifacts.array("rare")
    return {
        "ppl": predictions.perplexity(logprob, targets, groups, **reach),
        "ppl_excluding_rare": _excluding_rare(logprob, rare, targets, groups, reach),
        "rare_mass": predictions.rare_mass(rare, targets, groups, **reach),
        "token_share": predictions.token_share(targets, groups),
        "uniq": predictions.uniq(artifacts.array("prediction"), groups, block=settings.block),
        "continuation": predictions.continuation(artifacts.array("continuation"), prefix=settings.continuation.prefix),
        **_continued_paper_prefixes(artifacts, targets, settings.continuation),
        **geometry(artifacts),
        **(_similarity(artifacts, job.unit) if job.english else {}),
    }


def bootstrap_replicates(job: Score, artifacts: Artifacts) -> Replicates:
    from raretokens.metrics import bootstrap
    from raretokens.metrics.predictions import exclude_rare_types

    groups, targets = artifacts.groups, tokens(artifacts.paths.tokens, "test")
    logprob, rare = artifacts.array("logprob"), artifacts.array("rare")
    others = bootstrap.perplexity(exclude_rare_types(logprob, rare), targets, groups, kept=groups[targets] != RARE)
    by_metric = {
        "ppl": bootstrap.perplexity(logprob, targets, groups),
        "ppl_excluding_rare": {name: values for name, values in others.items() if name != "rare"},
        "uniq": bootstrap.uniq(artifacts.array("prediction"), groups),
        **(_bootstrap_similarity(artifacts, job.unit) if job.english else {}),
    }
    return {f"{metric}.{name}": values for metric, found in by_metric.items() for name, values in found.items()}


def _excluding_rare(
    logprob: np.ndarray, rare: np.ndarray, targets: np.ndarray, groups: np.ndarray, reach: dict
) -> tuple[dict[str, float | None], str]:
    """Perplexity excluding rare types: over targets that are not rare, with the softmax over types that are not rare."""
    from raretokens.metrics.predictions import exclude_rare_types, perplexity

    others = groups[targets] != RARE
    value, signature = perplexity(exclude_rare_types(logprob, rare)[others], targets[others], groups, **reach)
    return {name: number for name, number in value.items() if name != "rare"}, f"{signature}|softmax:without-rare"


def _continued_paper_prefixes(artifacts: Artifacts, targets: np.ndarray, settings: Continuation) -> Metrics:
    """Return Uniq of the continuations of AGG table 14's prefixes, if the test text contains these prefixes."""
    from raretokens.metrics.predictions import paper_prefix_uniq
    from reproduction.tasks.evaluation.paper_prefixes import find_paper_prefixes

    found = find_paper_prefixes(targets, artifacts.vocabulary.tokens, settings.prefix + settings.length)
    if not found:
        return {}
    return {"continuation.located": paper_prefix_uniq(artifacts.array("located"), found, prefix=settings.prefix)}


def _similarity(artifacts: Artifacts, unit: str) -> Metrics:
    """Return word similarity with and without the space mark of a word, and by whether words are one token.

    A vocabulary of words has one row per word, so it has neither.
    """
    from raretokens.metrics.similarity import coverage, word_similarity, word_similarity_by_tokens
    from raretokens.metrics.spectrum import all_but_top
    from reproduction.corpora.tokenization.tokenizer import Tokenizer

    sets, embedding, (encode, form) = _similarity_sets(artifacts), artifacts.embedding, _word_encoder(artifacts, unit)
    of_subwords = {}
    if unit != "word":
        encode_without_space = Tokenizer(artifacts.paths.tokens).encode_without_space
        of_subwords = {
            "spearman_bare": word_similarity(embedding, sets, encode_without_space, form="bare"),
            **word_similarity_by_tokens(embedding, sets, encode, form=form),
        }
    processed, how = all_but_top(embedding, artifacts.groups)
    value, signature = word_similarity(processed, sets, encode, form=form)
    return {
        "spearman": word_similarity(embedding, sets, encode, form=form),
        **of_subwords,
        "coverage": coverage(sets, encode, form=form),
        "all_but_top.spearman": (value, f"{how}|{signature}"),
    }


def _bootstrap_similarity(artifacts: Artifacts, unit: str) -> dict[str, Replicates]:
    """Return metric -> set -> replicates; a set with fewer than two pairs has none."""
    from raretokens.metrics import bootstrap
    from raretokens.metrics.similarity import cosines, human_scores, split_by_tokens

    sets, (encode, _) = _similarity_sets(artifacts), _word_encoder(artifacts, unit)
    by_metric = {"spearman": sets}
    if unit != "word":
        by_metric |= {f"spearman_{part}": pairs for part, pairs in split_by_tokens(sets, encode).items()}
    return {
        metric: {
            name: bootstrap.spearman(cosines(artifacts.embedding, pairs, encode), human_scores(pairs))
            for name, pairs in of.items()
            if len(pairs) > 1
        }
        for metric, of in by_metric.items()
    }


def _similarity_sets(artifacts: Artifacts) -> "dict[str, list[Pair]]":
    from raretokens.metrics.similarity import SETS, read_pairs

    return {key: read_pairs(artifacts.paths.corpora / "similarity" / f"{key}.tsv") for key in SETS}


def _word_encoder(artifacts: Artifacts, unit: str) -> "tuple[EncodeWord, str]":
    """Return the function that encodes a word, and its name for the signature."""
    from raretokens.metrics.similarity import whole_words
    from reproduction.corpora.tokenization.tokenizer import Tokenizer

    if unit == "word":
        return whole_words({word: i for i, word in enumerate(artifacts.vocabulary.tokens)}), "whole-word"
    return Tokenizer(artifacts.paths.tokens).encode, "leading-space"


def score_baseline(job: Baseline, corpora: Path, token_files: Path, scores: Path) -> None:
    """Write <name>.json, .csv and .bootstrap.csv of the human baseline. Raises UserError if the test text is too short."""
    from raretokens.metrics import bootstrap, predictions
    from raretokens.metrics.score_files import write_baseline
    from reproduction.tasks.evaluation import text

    folder, words = token_files / job.tokens, token_files / (job.words or job.tokens)
    vocabulary, targets = Vocabulary.read(folder / VOCABULARY), tokens(folder, "test")
    groups, settings = vocabulary.frequency_groups(job.groups), job.continuation
    word_vocabulary = Vocabulary.read(words / VOCABULARY)
    types = {group: int(np.sum(groups == code)) for group, code in GROUP_NAMES.items()}
    try:
        written = predictions.reference_continuations(targets, **settings.model_dump())
    except ValueError as error:
        raise UserError(f"lm.evaluation.continuation: {error}") from None
    metrics = {
        "uniq": predictions.uniq(targets, groups),
        "continuation": predictions.continuation(written, prefix=settings.prefix, source="targets"),
        "token_share": predictions.token_share(targets, groups),
        **_written_after_paper_prefixes(vocabulary, targets, settings),
        "frequency": text.frequency(vocabulary),
        "types": ({"total": vocabulary.types} | types, "fillers:no|specials:freq"),
        "tokens": ({split: facts["tokens"] for split, facts in read_splits(folder).items()}, "unit:piece|line-ends:yes"),
    }
    if job.words:
        metrics["corpus"] = text.corpus_in_words(word_vocabulary, read_splits(words), tokens(words, "test"))
    uniq = {f"uniq.{group}": values for group, values in bootstrap.uniq(targets, groups).items()}
    write_baseline(scores, job.name, job.task, metrics, uniq, text.rank_frequency_points(word_vocabulary))


def _written_after_paper_prefixes(vocabulary: Vocabulary, targets: np.ndarray, settings: Continuation) -> Metrics:
    """Return Uniq of the test text's own continuations of AGG table 14's prefixes, if the text contains these prefixes."""
    from raretokens.metrics.predictions import paper_prefix_uniq
    from reproduction.tasks.evaluation.paper_prefixes import find_paper_prefixes

    found = find_paper_prefixes(targets, vocabulary.tokens, settings.prefix + settings.length)
    if not found:
        return {}
    starts = [start + settings.prefix for start in found.values()]
    written = np.stack([np.asarray(targets[start : start + settings.length]) for start in starts])
    return {"continuation.located": paper_prefix_uniq(written, found, prefix=settings.prefix, source="targets")}
