"""Skip-gram word embeddings: predict each word from a nearby word."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from raretokens.metrics.score_files import Metrics, Replicates
from raretokens.schema import Section
from raretokens.vocabulary import SPECIALS, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization.settings import Groups
from reproduction.corpora.tokenization.token_files import read_splits, tokens
from reproduction.run import Run
from reproduction.tasks import ComparedMetric, Headline, Task
from reproduction.tasks.evaluation.artifacts import Artifacts
from reproduction.tasks.evaluation.job_specs import ScoreJob
from reproduction.tasks.parameters import Parameters, TaskSettings
from reproduction.training.recipe import TrainJob

if TYPE_CHECKING:
    from torch import nn

    from raretokens.loss.objective import Objective
    from raretokens.metrics.similarity import Pair
    from reproduction.training.criterion import NegativeSampling
    from reproduction.training.window_batches import Windows

FORM = "lower-case"


def describe() -> Task:
    return Task(
        title="Skip-gram embeddings",
        text="Text of the word embeddings",
        tokens=("skipgram",),
        pictures={"projection": False},
        headline={
            "ws353": Headline("spearman.ws353", "WS353"),
            "rw": Headline("spearman.rw", "RW"),
            "iw": Headline("isotropy.total", "I(W)", 3),
            "popularity": Headline("frequency_probe.accuracy", "frequency-probe accuracy", 1),
        },
        compared={
            "MEN": ComparedMetric("spearman.men", needs=("men-learnt",)),
            "WS353": ComparedMetric("spearman.ws353", needs=("ws353-learnt",)),
            "RW": ComparedMetric("spearman.rw", needs=("rw-learnt",)),
            "SimLex": ComparedMetric("spearman.simlex"),
            "I(W)": ComparedMetric("isotropy.total"),
            "frequency-probe accuracy": ComparedMetric("frequency_probe.accuracy"),
        },
    )


class Settings(TaskSettings):
    neighbour_ranks: dict[str, list[str]] = {}  # query -> words whose rank among its neighbours is reported


class Score(ScoreJob):
    min_count: int  # smallest training count of a word in the vocabulary


class Baseline(Section):
    """Job spec of the scores of the text itself."""

    name: str
    task: str
    words: str  # folder of token files
    groups: Groups


def training_data(job: TrainJob, folder: Path) -> tuple["Windows", "Windows"]:
    from reproduction.training.window_batches import Windows

    training, shape = job.training, job.run.shape
    cut = {name: shape[name] for name in ("window", "shared_negatives", "subsample")} | {"block": training.block}
    vocabulary, train, valid = Vocabulary.read(folder / VOCABULARY), tokens(folder, "train"), tokens(folder, "valid")
    size, most = training.tokens_per_step, training.validation_tokens or len(valid)
    batches = Windows(train, vocabulary, **cut, tokens_per_step=size, seed=job.run.seed)
    return batches, Windows(valid, vocabulary, **cut, tokens_per_step=min(size, len(valid), most), first=most)


def criterion(model: "nn.Module", objective: "Objective") -> "NegativeSampling":
    from reproduction.training.criterion import NegativeSampling

    return NegativeSampling(model, objective)


def run_jobs(parameters: Parameters, settings: Settings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    vocabulary = parameters.tokens[run.tokens].vocabulary
    ranks, count = settings.neighbour_ranks, getattr(vocabulary, "min_count", 1)
    yield "score-skipgram", Score(**score, neighbour_ranks=ranks, min_count=count)


def baseline_job(parameters: Parameters, settings: Settings, corpus: str) -> Baseline | None:
    """Return the job spec of the baseline, or None where the text has no token files."""
    tokens = [name for name, declared in parameters.tokens.items() if declared.corpus == corpus]
    if not tokens:
        return None
    groups = parameters.tokens[tokens[0]].groups
    return Baseline(name=parameters.corpora[corpus].baseline, task="skipgram", words=tokens[0], groups=groups)


def metrics(job: Score, artifacts: Artifacts) -> Metrics:
    from raretokens.metrics import similarity
    from reproduction.tasks.evaluation.geometry import geometry

    rows, sets = _rows(artifacts), _similarity_sets(artifacts)
    encode = similarity.whole_words(rows)
    known = {name: _known(pairs, rows) for name, pairs in sets.items()}
    enough = {name: pairs for name, pairs in known.items() if len(pairs) > 1}
    value, signature = similarity.word_similarity(artifacts.embedding, enough, encode, form=FORM)
    return {
        "valid_nll": (
            artifacts.summary["kept"]["valid_nll"],
            f"log:e|unit:pair|negatives:{job.run.shape['negatives']}|checkpoint:scored|split:valid",
        ),
        "training.nll_to_uniform": (None, "no-likelihood:negatives-are-sampled"),
        "spearman": (dict.fromkeys(sets) | value, signature.replace("pairs:all", "pairs:known")),
        "pairs": ({name: len(pairs) for name, pairs in known.items()}, "of:both-words-known"),
        "coverage": similarity.coverage(sets, encode, form=FORM),
        **geometry(artifacts),
    }


def bootstrap_replicates(job: Score, artifacts: Artifacts) -> Replicates:
    from raretokens.metrics.bootstrap import spearman
    from raretokens.metrics.similarity import cosines, human_scores, whole_words

    rows = _rows(artifacts)
    known = {name: _known(pairs, rows) for name, pairs in _similarity_sets(artifacts).items()}
    return {
        f"spearman.{name}": spearman(cosines(artifacts.embedding, pairs, whole_words(rows)), human_scores(pairs))
        for name, pairs in known.items()
        if len(pairs) > 1
    }


def hyperparameters(job: Score) -> dict:
    adversary = {"hidden_times_width": 1.5} if job.run.options.get("hidden") else {}
    return {**adversary, "min_count": job.min_count, "rule": job.training.rule.name, **job.training.rule.options}


def _similarity_sets(artifacts: Artifacts) -> "dict[str, list[Pair]]":
    """Return the word-similarity sets that the scale has fetched, in lower case like the text."""
    from raretokens.metrics.similarity import SETS, read_pairs

    folder = artifacts.paths.corpora / "similarity"
    files = {name: folder / f"{name}.tsv" for name in (*SETS, "simlex")}
    return {
        name: [(first.lower(), second.lower(), score) for first, second, score in read_pairs(file)]
        for name, file in files.items()
        if file.exists()
    }


def _known(pairs: "list[Pair]", rows: dict[str, int]) -> "list[Pair]":
    """Return the pairs whose words are both in the vocabulary, because other words have no trained row."""
    return [pair for pair in pairs if pair[0] in rows and pair[1] in rows]


def _rows(artifacts: Artifacts) -> dict[str, int]:
    words = artifacts.vocabulary.tokens[: artifacts.vocabulary.types]
    return {word: row for row, word in enumerate(words) if row >= len(SPECIALS)}


def score_baseline(job: Baseline, corpora: Path, token_files: Path, scores: Path) -> None:
    """Write <name>.json, .csv and .bootstrap.csv with the word frequencies of the text itself."""
    from raretokens.metrics.score_files import write_baseline
    from reproduction.tasks.evaluation import text

    folder = token_files / job.words
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    metrics = {
        "frequency": text.frequency(vocabulary),
        "types": ({"total": vocabulary.types}, "fillers:no|specials:freq"),
        "tokens": ({split: facts["tokens"] for split, facts in read_splits(folder).items()}, "unit:word|line-ends:yes"),
    }
    write_baseline(scores, job.name, job.task, metrics, {}, text.rank_frequency_points(vocabulary))
