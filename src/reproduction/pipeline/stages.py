"""Stages of dvc.yaml, one function each.

A stage depends on all code that its function imports (code.py), so import nothing else there. surroundings.py contains what
does not affect results: machine settings, progress, and the refusal of a run that cannot finish.
"""

from reproduction import paths
from reproduction.pipeline import surroundings
from reproduction.pipeline.job_file import load_job, parse_job, read_job_file


def jobs() -> None:
    """Check params.yaml and data/paper, write all jobs, and remove scores of runs that are no longer on the run sheet."""
    from reproduction.papers.load import check_declarations
    from reproduction.pipeline.jobs import remove_stale_scores, run_sheet, write_jobs
    from reproduction.pipeline.parameters_file import load

    parameters = load()
    surroundings.check_folder(parameters.own)
    check_declarations(surroundings.root() / paths.PAPERS)
    write_jobs(parameters, paths.JOBS)
    remove_stale_scores(run_sheet(parameters), paths.SCORES, paths.CURVES)


def fetch(name: str) -> None:
    """Fetch a source of src/reproduction/corpora/table from the mirror or the network into data/raw."""
    from reproduction.corpora.download import fetch as fetch_source

    fetch_source(name, paths.RAW / name, surroundings.mirror(), scratch=paths.DOWNLOADS)


def own(name: str) -> None:
    """Check and copy a file of a custom corpus that params.yaml lists under `own`."""
    from reproduction.corpora.own import take

    take(name, surroundings.own_file(name), paths.OWN / name)


def prepare(name: str) -> None:
    """Write the splits of a corpus as plain text."""
    from reproduction.corpora.registry import PrepareJob
    from reproduction.corpora.registry import prepare as prepare_corpus

    job = load_job(PrepareJob, "prepare", name)
    options = {"languages": job.languages, "processes": job.processes}
    prepare_corpus(job.kind, job.corpus, paths.RAW, paths.corpus(name), job.extra_tests, **options)


def similarity() -> None:
    """Write the word-similarity sets."""
    from reproduction.corpora.registry import prepare as prepare_corpus

    prepare_corpus("similarity", "similarity", paths.RAW, paths.corpus("similarity"))


def encode(name: str, corpus: str) -> None:
    """Tokenize a prepared corpus, and write its vocabulary and token files."""
    from reproduction.corpora.tokenization.encode import encode as encode_corpus
    from reproduction.corpora.tokenization.settings import EncodeJob
    from reproduction.corpora.tokenization.token_files import add_labels_and_images

    meta = encode_corpus(load_job(EncodeJob, "encode", name), paths.corpus(corpus), paths.tokens(name))
    add_labels_and_images(paths.corpus(corpus), paths.tokens(name))
    print(f"encode {name}: {meta['vocabulary']} types;",
          ", ".join(f"{split} {facts['tokens']:,}" for split, facts in meta["splits"].items()))  # fmt: skip


def align(name: str) -> None:
    """Align a bitext, and count links between source and target token types."""
    from reproduction.corpora.tokenization.alignment import align as align_tokens
    from reproduction.corpora.tokenization.settings import AlignJob

    align_tokens(load_job(AlignJob, "align", name), paths.tokens(name), paths.alignment(name))


def train(task: str, name: str) -> None:
    """Train a run."""
    from reproduction import tasks
    from reproduction.training.recipe import TrainJob
    from reproduction.training.run import train as train_run

    stage = f"train-{task}"
    content = read_job_file(stage, name)
    settings, file = parse_job(TrainJob, content, paths.job(stage, name)), tasks.load(task)
    run = settings.run
    start = paths.trained(task, run.init_from) if run.init_from else None
    folders = paths.tokens(run.tokens), paths.STATES, paths.trained(task, name), start
    surroundings.training(
        settings, lambda execution, observer: train_run(settings, content, file, execution, observer, *folders)
    )


def translate(name: str) -> None:
    """Translate the test sets with a trained run."""
    from reproduction.tasks.evaluation.job_specs import TranslateJob
    from reproduction.tasks.evaluation.translate import translate as translate_tests

    settings = load_job(TranslateJob, "translate", name)
    folders = paths.tokens(settings.run.tokens), paths.trained("nmt", name), paths.predictions("nmt", name)
    translate_tests(settings, *folders, surroundings.machine().decoding_batch)


def predict(task: str, name: str) -> None:
    """Write a trained run's predictions for the test text."""
    from reproduction import tasks

    file = tasks.load(task)
    settings = load_job(file.Predict, f"predict-{task}", name)
    file.predict(settings, paths.tokens(settings.run.tokens), paths.trained(task, name), paths.predictions(task, name))


def score(task: str, name: str) -> None:
    """Compute and write the scores of a run."""
    from reproduction import tasks
    from reproduction.tasks.evaluation.artifacts import RunPaths
    from reproduction.tasks.evaluation.job_specs import ScoreJob
    from reproduction.tasks.evaluation.score import score as score_run

    file = tasks.load(task)
    settings = load_job(getattr(file, "Score", ScoreJob), f"score-{task}", name)
    tokens = settings.run.tokens
    folders = RunPaths(
        tokens=paths.tokens(tokens),
        trained=paths.trained(task, name),
        predictions=paths.predictions(task, name),
        alignment=paths.alignment(tokens),
        corpora=paths.CORPORA,
        scores=paths.SCORES / task,
        curves=paths.CURVES / task,
    )
    score_run(settings, file, folders)


def decompose(task: str, name: str) -> None:
    """Split the perplexity of a trained language model by frequency group, and write the frontier of the logit-bias baseline."""
    from reproduction.tasks.evaluation.decomposition import decompose as decompose_run
    from reproduction.tasks.evaluation.job_specs import DecompositionJob

    job = load_job(DecompositionJob, f"decompose-{task}", name)
    decompose_run(job, paths.tokens(job.run.tokens), paths.trained(task, name), paths.SCORES / task)


def recall(task: str, name: str) -> None:
    """Score a run's translations by word frequency, and all its test sets together."""
    from reproduction import tasks

    file = tasks.load(task)
    job = load_job(file.RecallJob, f"recall-{task}", name)
    file.recall(job, paths.CORPORA, paths.predictions(task, name), paths.SCORES / task)


def baseline(task: str, name: str) -> None:
    """Compute and write the scores of a corpus that need no model."""
    from reproduction import tasks

    file = tasks.load(task)
    file.score_baseline(load_job(file.Baseline, "baseline", name), paths.CORPORA, paths.TOKENS, paths.SCORES / task)


def report() -> None:
    """Write the report: tables, figures, verdicts on claims, and reports/index.md."""
    from reproduction.papers.load import load_declarations
    from reproduction.report import build
    from reproduction.run_sheet import Sheet

    declared = load_declarations(surroundings.root() / paths.PAPERS)
    verdicts = build.write(load_job(Sheet, "report", "all"), declared, paths.REPORTS)
    print(f"report: {paths.REPORTS}/index.md; claims: {verdicts}")
