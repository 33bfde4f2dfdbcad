"""Translation: predict the target sentence from the source sentence, token by token."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from raretokens.errors import UserError
from raretokens.metrics.score_files import Metrics, Replicates
from raretokens.schema import Name, Section
from raretokens.vocabulary import SPACE, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization.token_files import Bitext, read_splits
from reproduction.run import Run
from reproduction.tasks import ComparedMetric, Headline, Task, parameters
from reproduction.tasks.evaluation.artifacts import Artifacts, lines
from reproduction.tasks.evaluation.job_specs import Decoding, ScoreJob, TranslateJob
from reproduction.tasks.parameters import Parameters, TaskSettings
from reproduction.training.recipe import TrainJob

if TYPE_CHECKING:
    from scipy.sparse import csr_array, spmatrix

    from reproduction.tasks.evaluation.bleu import Tokens
    from reproduction.training.example_batches import Pairs

LINKED = 0.01  # smallest share of a query's links to other types at which a neighbour counts as a translation


def describe() -> Task:
    return Task(
        title="Translation",
        text="Text of translation",
        kind="bitext",
        sides=(".source", ".target"),
        tokens=("nmt",),
        positions=32,
        pictures={"projection": False, "pca": True},
        headline={
            "bleu": Headline("bleu.tokenised", "BLEU"),
            "iw": Headline("isotropy.total", "I(W)", 3),
            "align": Headline("alignsim.total", "AlignSim", 4),
        },
        compared={
            "BLEU": ComparedMetric("bleu.tokenised"),
            "chrF2": ComparedMetric("chrf"),
            "I(W)": ComparedMetric("isotropy.total"),
            "I(W) freq": ComparedMetric("isotropy.freq"),
            "I(W) rare": ComparedMetric("isotropy.rare"),
            "IsoScore": ComparedMetric("iso_score.total"),
            "S(w)": ComparedMetric("mean_cosine"),
            "AlignSim": ComparedMetric("alignsim.total"),
            "AlignSim rare": ComparedMetric("alignsim.rare"),
        },
    )


class Line(parameters.Line):
    reverse: bool = False  # translate from target to source


class ModelConfig(parameters.ModelConfig):
    decoding: Decoding | None = None  # overrides the decoding of the task


class Settings(TaskSettings):
    models: dict[Name, ModelConfig]
    alpha: float  # option of AGG
    decoding: Decoding
    neighbour_ranks: dict[str, list[str]] = {}  # query -> words whose rank among its neighbours is reported

    def decoding_of(self, size: str) -> Decoding:
        return self.models[size].decoding or self.decoding


class Texts(Section):
    """The test sets, and how they are translated."""

    corpus: str  # folder of the prepared text
    decoding: Decoding
    extra_tests: list[str]


class Score(ScoreJob):
    texts: Texts
    aligned: int | None  # sentence pairs that the aligner was trained on; None: all


class RecallJob(Section):
    """Job spec of scoring translations by word frequency, and of all test sets together."""

    run: Run
    texts: Texts
    parameters_hash: str


class Baseline(Section):
    """Job spec of the baseline that copies the source as its translation."""

    name: str
    task: str
    tokens: str  # folder of token files
    texts: Texts


def training_data(job: TrainJob, folder: Path) -> tuple["Pairs", "Pairs"]:
    from reproduction.training.example_batches import Pairs

    run, training = job.run, job.training
    train, valid = (Bitext(folder, split, run.reverse) for split in ("train", "valid"))
    batches = Pairs(train, training.block, training.tokens_per_step, run.seed)
    return batches, Pairs(valid, training.block, first=training.validation_tokens)


def run_jobs(parameters: Parameters, settings: Settings, run: Run, score: dict) -> Iterator[tuple[str, Section]]:
    texts = _texts(parameters, settings.decoding_of(run.model), parameters.tokens[run.tokens].corpus)
    training = score["training"]
    translate = TranslateJob(
        run=run,
        decoding=texts.decoding,
        tests=["test", *texts.extra_tests],
        longest=training.block,
        keep=training.keep,
        threads=parameters.threads,
    )
    yield "translate", translate
    aligned = parameters.alignments[run.tokens].max_pairs
    yield "score-nmt", Score(**score, neighbour_ranks=settings.neighbour_ranks, texts=texts, aligned=aligned)


def further_jobs(
    parameters: Parameters, settings: Settings, run: Run, parameters_hash: str
) -> Iterator[tuple[str, Section]]:
    texts = _texts(parameters, settings.decoding_of(run.model), parameters.tokens[run.tokens].corpus)
    yield "recall-nmt", RecallJob(run=run, texts=texts, parameters_hash=parameters_hash)


def baseline_job(parameters: Parameters, settings: Settings, corpus: str) -> Baseline | None:
    """Return the job spec of the baseline, or None where the text has no token files."""
    tokens = next((name for name, declared in parameters.tokens.items() if declared.corpus == corpus), None)
    name, texts = parameters.corpora[corpus].baseline, _texts(parameters, settings.decoding, corpus)
    return Baseline(name=name, task="nmt", tokens=tokens, texts=texts) if tokens else None


def _texts(parameters: Parameters, decoding: Decoding, corpus: str) -> Texts:
    return Texts(corpus=corpus, decoding=decoding, extra_tests=parameters.corpora[corpus].extra_tests)


def metrics(job: Score, artifacts: Artifacts) -> Metrics:
    """Return metric -> (value, signature) of a run. Raises UserError where translations and references do not match."""
    from scipy import sparse

    from raretokens.metrics.similarity import alignsim
    from reproduction.tasks.evaluation.geometry import geometry

    paths = artifacts.paths
    links = sparse.load_npz(paths.alignment / "links.npz")  # alignsim() is symmetric, so `reverse` does not matter
    similar, signature = alignsim(artifacts.embedding, links, artifacts.groups)
    return {
        **_bleu(job.texts, paths.corpora / job.texts.corpus, paths.predictions, ".txt", artifacts.run.reverse),
        **geometry(artifacts),
        "neighbours.translations": _linked_neighbours(artifacts, links, job.queries),
        "alignsim": (similar, signature + (f"|pairs:{job.aligned}" if job.aligned else "")),
        "valid_nll": (artifacts.summary["kept"]["valid_nll"], "log:e|unit:piece|checkpoint:scored|split:valid"),
    }


def bootstrap_replicates(job: Score, artifacts: Artifacts) -> Replicates:
    corpus, system = artifacts.paths.corpora / job.texts.corpus, artifacts.paths.predictions / "test.txt"
    return _bootstrap_bleu(job.texts, corpus, system, artifacts.run.reverse)


def hyperparameters(job: Score) -> dict:
    return {"beam": job.texts.decoding.beam, "length_penalty": job.texts.decoding.length_penalty}


def _linked_neighbours(artifacts: Artifacts, links: "spmatrix", queries: list[str]) -> tuple[float | None, str]:
    """Share of the queries' neighbours that receive at least LINKED of the query's alignment links to other types."""
    from scipy import sparse

    from raretokens.metrics.neighbours import neighbours

    both = sparse.csr_array(links + links.T, dtype=float)
    ids = {token: number for number, token in enumerate(artifacts.vocabulary.tokens)}
    near, _ = neighbours(artifacts.embedding, artifacts.vocabulary.tokens, artifacts.groups, queries)
    linked = [
        _share_of_links(both, ids.get(SPACE + query, ids.get(query)), ids[token]) >= LINKED
        for query, listed in near.items()
        for token, _, _ in listed
    ]
    return (sum(linked) / len(linked) if linked else None), f"linked:{LINKED:g}"


def _share_of_links(both: "csr_array", query: int, token: int) -> float:
    """Return the share of a query's links to other types that go to a token."""
    row = both[[query]].toarray()[0]
    others = row.sum() - row[query]
    return float(row[token] / others) if others else 0.0


def score_baseline(job: Baseline, corpora: Path, token_files: Path, scores: Path) -> None:
    """Write <name>.json, .csv and .bootstrap.csv of the baseline that copies the source."""
    from raretokens.metrics.score_files import write_baseline
    from reproduction.tasks.evaluation import text

    folder, corpus = token_files / job.tokens, corpora / job.texts.corpus
    pairs = {split: facts["lines"] for split, facts in read_splits(folder).items()}
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    metrics = {
        **_bleu(job.texts, corpus, corpus, ".source"),
        "corpus.pairs": (pairs, "unit:sentence-pair"),
        "frequency": text.frequency(vocabulary),
        "types": ({"total": vocabulary.types}, "fillers:no"),
    }
    replicates = _bootstrap_bleu(job.texts, corpus, corpus / "test.source")
    write_baseline(scores, job.name, job.task, metrics, replicates, text.rank_frequency_points(vocabulary))


def recall(job: RecallJob, corpora: Path, predictions: Path, scores: Path) -> None:
    """Write <run>.recall.json and <run>.recall.bootstrap.csv: word recall by frequency, and scores of all test sets together."""
    from collections import Counter

    from raretokens.metrics import bootstrap
    from raretokens.metrics.score_files import layout, write_bootstrap, write_json
    from reproduction.tasks.evaluation import bleu, word_recall

    run, texts, corpus = job.run, job.texts, corpora / job.texts.corpus
    side, tokens = _references(corpus, run.reverse)
    tests = [test for test in ("test", *texts.extra_tests) if (corpus / f"{test}.{side}").exists()]
    pairs = {
        test: paired_lines(texts.decoding, predictions / f"{test}.txt", corpus / f"{test}.{side}") for test in tests
    }
    system, truth = ([line for pair in pairs.values() for line in pair[part]] for part in (0, 1))
    how = next(iter(pairs.values()))[2] + f"|tests:{'+'.join(tests)}"
    counts = Counter(
        word for line in word_recall.tokenise(lines(corpus / f"train.{side}"), tokens.language) for word in line
    )
    counted = word_recall.matches(*(word_recall.tokenise(text, tokens.language) for text in (system, truth)), counts)
    words = f"unit:word|tok:sacrebleu-{word_recall.tokenizer(tokens.language).signature()}|classes:{word_recall.LIMITS}"
    found: Metrics = {
        "all_tests.sacrebleu": bleu.sacre_bleu(system, truth, tokens.language),
        "all_tests.chrf": bleu.chrf(system, truth),
        "all_tests.sentences": (len(truth), "unit:sentence"),
        "words.reference": (word_recall.reference_words(counted[2]), words),
        **{f"words.{name}": (value, f"{words}|clipped:yes") for name, value in word_recall.scores(*counted).items()},
    }
    metrics = {path: (value, signature + how) for path, (value, signature) in found.items()}
    tree = layout({"run": run.name, "task": run.task, "objective": run.objective, "seed": run.seed}, metrics)
    draws = {
        "all_tests.sacrebleu": bootstrap.bleu(system, truth, tokens.sacrebleu),
        **{f"words.{name}": values for name, values in word_recall.replicates(*counted).items()},
    }
    for test in tests[1:]:
        translated, references, _ = pairs[test]
        moses = [bleu.split_tokens(text, tokens) for text in (translated, references)]
        draws[f"bleu.{test}.tokenised"] = bootstrap.bleu(*moses, bleu.TOKENISED)
        draws[f"bleu.{test}.sacrebleu"] = bootstrap.bleu(translated, references, tokens.sacrebleu)
    write_bootstrap(scores / f"{run.name}.recall.bootstrap.csv", draws)
    write_json(scores / f"{run.name}.recall.json", tree | {"parameters_hash": job.parameters_hash})
    print(f"recall {run.name}: sacreBLEU of {len(truth)} sentences {found['all_tests.sacrebleu'][0]:.2f}")


def _bleu(texts: Texts, corpus: Path, folder: Path, suffix: str, reverse: bool = False) -> Metrics:
    """Return tokenised BLEU and sacreBLEU of each test set, and also chrF of `test`.

    Args:
        corpus: Folder of the prepared text, with the references. Test sets without references are skipped.
        folder, suffix: The translations are the files <test><suffix> of this folder.
    """
    from reproduction.tasks.evaluation import bleu

    side, tokens = _references(corpus, reverse)
    found: Metrics = {}
    for test in ("test", *texts.extra_tests):
        if test != "test" and not (corpus / f"{test}.{side}").exists():
            continue
        system, truth, how = paired_lines(texts.decoding, folder / f"{test}{suffix}", corpus / f"{test}.{side}")
        prefix = "bleu." if test == "test" else f"bleu.{test}."
        values: Metrics = {
            prefix + "tokenised": bleu.tokenised_bleu(system, truth, tokens),
            prefix + "sacrebleu": bleu.sacre_bleu(system, truth, tokens.language),
        }
        if bleu.is_unsegmented(truth, tokens.language):
            file = corpus / f"{test}.{side}"
            print(f"{file}: its script has no blanks between words, and sacreBLEU has no tokenizer for language "
                  f"{tokens.language!r}: BLEU compares whole clauses")  # fmt: skip
            how += "|unsegmented:yes"
        if test == "test":
            interval = bleu.sacre_bleu_interval(system, truth, tokens.language)
            values |= {"bleu.interval": interval, "chrf": bleu.chrf(system, truth)}
        found |= {path: (value, signature + how) for path, (value, signature) in values.items()}
    return found


def _bootstrap_bleu(texts: Texts, corpus: Path, system: Path, reverse: bool = False) -> Replicates:
    """Return bootstrap replicates of tokenised BLEU and sacreBLEU for a file of translations of `test`."""
    from raretokens.metrics import bootstrap
    from reproduction.tasks.evaluation.bleu import TOKENISED, split_tokens

    side, tokens = _references(corpus, reverse)
    translated, truth, _ = paired_lines(texts.decoding, system, corpus / f"test.{side}")
    return {
        "bleu.tokenised": bootstrap.bleu(*(split_tokens(text, tokens) for text in (translated, truth)), TOKENISED),
        "bleu.sacrebleu": bootstrap.bleu(translated, truth, tokens.sacrebleu),
    }


def _references(corpus: Path, reverse: bool) -> "tuple[str, Tokens]":
    """Return the suffix of the reference files, and their tokenization for BLEU."""
    from reproduction.tasks.evaluation.bleu import Tokens

    side = "source" if reverse else "target"
    counts = json.loads((corpus / "counts.json").read_text(encoding="utf-8"))
    return side, Tokens(counts["languages"][side].split("-")[0], **counts.get("bleu", {}))  # en-ylt is English


def paired_lines(decoding: Decoding, system: Path, reference: Path) -> tuple[list[str], list[str], str]:
    """Return the hypotheses, their references, and the signature of decoding.

    The signature contains the number of sentences if only a part of the test set was translated.

    Raises:
        UserError: The numbers of translations and references differ.
    """
    translated, truth = lines(system), lines(reference)
    chosen, decoded = decoding.sentence_numbers(len(truth)), f"|{decoding.signature}"
    expected = [truth[number] for number in chosen]
    if system.parent == reference.parent:  # the baseline that copies the source
        translated, decoded = [translated[number] for number in chosen], ""
    if len(translated) != len(expected):
        raise UserError(f"{system}: {len(translated)} lines; there are {len(expected)} references to score")
    return translated, expected, decoded + (f"|sentences:{len(expected)}" if len(expected) < len(truth) else "")
