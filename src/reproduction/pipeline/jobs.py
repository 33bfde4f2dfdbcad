"""Job specifications that params.yaml declares, one for each stage and name."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from raretokens.claims.scores import SheetLine
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.objectives.registry import declared
from raretokens.schema import Section
from reproduction import paths, tasks
from reproduction.corpora.registry import PrepareJob, borrowable_tests, known_corpora
from reproduction.corpora.tokenization.settings import AlignJob, EncodeJob
from reproduction.papers.load import load_figures
from reproduction.papers.table import Figure
from reproduction.pipeline.code import Code
from reproduction.pipeline.job_file import job_text, params_hash
from reproduction.pipeline.surroundings import root
from reproduction.run import Run
from reproduction.run_sheet import Sheet
from reproduction.tasks import describe
from reproduction.tasks.evaluation.job_specs import ScoreJob
from reproduction.tasks.parameters import Parameters
from reproduction.training.recipe import TrainJob

STAGES = "reproduction.pipeline.stages"
PINNED = ("fetch", "own")  # outputs are pinned by hash; the job only makes the stage wait for the check of params.yaml
# Stage -> definitions in the module of a task that the stage uses.
OF_TASK = {
    "train": ("training_data", "criterion"),
    "predict": ("Predict", "predict"),
    "score": ("Score", "metrics", "bootstrap_replicates", "hyperparameters"),
    "recall": ("RecallJob", "recall"),
    "baseline": ("Baseline", "score_baseline"),
    "report": ("describe",),
}
CODE = Code()


def all_jobs(parameters: Parameters) -> Iterator[tuple[str, str, Section]]:
    """Yield stage, name and job of all stages that have a job."""
    yield from (("fetch", name, Section()) for name in parameters.sources)
    yield from (("own", name, Section()) for name in parameters.own)
    for name, corpus in parameters.corpora.items():
        yield "prepare", name, _prepare(parameters, name)
        baseline_job = getattr(tasks.load(corpus.task), "baseline_job", None)
        if baseline_job and (baseline := baseline_job(parameters, parameters.task(corpus.task), name)):
            yield "baseline", name, baseline
    for name in parameters.tokens:
        yield "encode", name, _encode(parameters, name)
    for name, alignment in parameters.alignments.items():
        yield "align", name, AlignJob(**alignment.model_dump())
    for task in tasks.names():
        for name in parameters.lines(task):
            yield from ((stage, name, job) for stage, job in jobs_of_run(parameters, parameters.run(task, name)))
    yield "similarity", "all", Section()
    yield "report", "all", run_sheet(parameters)


def jobs_of_run(parameters: Parameters, run: Run) -> Iterator[tuple[str, Section]]:
    """Yield stage and job of all stages of a run, training first."""
    jobs, corpus = list(_of_run(parameters, run)), parameters.tokens[run.tokens].corpus
    before_training = _prepare(parameters, corpus), _encode(parameters, run.tokens)
    parameters_hash = params_hash([*before_training, *(job for _, job in jobs)])
    about = {"parameters_hash": parameters_hash, "clouds": _clouds(parameters, run)}
    yield from ((stage, job.replaced(**about) if isinstance(job, ScoreJob) else job) for stage, job in jobs)
    if more := getattr(tasks.load(run.task), "further_jobs", None):
        # Their parameters are those of the jobs above, so the hash leaves them out.
        yield from more(parameters, parameters.task(run.task), run, parameters_hash)


def _clouds(parameters: Parameters, run: Run) -> list[str]:
    """Return the series of the run that figures show as point clouds. Only these are written, since series are large."""
    figures, sheet = _figures().values(), parameters.lines(run.task)
    return sorted({series for one in figures for name, series in one.clouds(run.task, sheet) if name == run.name})


@cache
def _figures() -> dict[str, Figure]:
    return load_figures(root() / paths.PAPERS)


def _prepare(parameters: Parameters, name: str) -> PrepareJob:
    corpus = parameters.corpora[name]
    fields = corpus.model_dump(include={"corpus", "extra_tests", "languages"})
    return PrepareJob(kind=describe(corpus.task).kind, **fields, processes=parameters.threads)


def _encode(parameters: Parameters, name: str) -> EncodeJob:
    sides = describe(parameters.corpus_of(name).task).sides
    return EncodeJob(name=name, sides=sides, vocabulary=parameters.tokens[name].vocabulary)


def _of_run(parameters: Parameters, run: Run) -> Iterator[tuple[str, Section]]:
    settings = parameters.task(run.task)
    train = train_job(parameters, run)
    yield f"train-{run.task}", train
    every = train.training.snapshot_every
    score = {
        "run": run,
        "training": train.training,
        "groups": train.groups,
        "pictures": describe(run.task).pictures,
        "queries": settings.neighbours,
        "projection_steps": [step for step in settings.projection_steps if step % every == 0],
    }
    yield from tasks.load(run.task).run_jobs(parameters, settings, run, score)


def train_job(parameters: Parameters, run: Run) -> TrainJob:
    settings = parameters.task(run.task)
    recipe = settings.models[run.model].training(settings.training)
    return TrainJob(run=run, training=recipe, groups=parameters.tokens[run.tokens].groups)


def select_jobs(parameters: Parameters, names: list[str]) -> list[TrainJob]:
    """Return the trainings of the runs of the given names (`gpt2m-agg` or `lm/gpt2m-agg`), or of all runs without names.

    Raises:
        UserError: a name is unknown.
    """
    jobs = [train_job(parameters, run) for run in parameters.every_run()]
    names_of = [{job.run.name, f"{job.run.task}/{job.run.name}"} for job in jobs]
    for name in names:
        if not any(name in known for known in names_of):
            known = ", ".join(job.run.name for job in jobs)
            raise UserError(f"no run named {name!r}; the run sheet has {known}")
    return [job for job, known in zip(jobs, names_of, strict=True) if not names or known & {*names}]


def job_files(parameters: Parameters) -> dict[Path, str]:
    """Return path below data/jobs -> content of the job file, for all jobs."""
    return {
        Path(stage, f"{name}.json"): job_text(job, code_hashes(stage, job)) for stage, name, job in all_jobs(parameters)
    }


def run_sheet(parameters: Parameters) -> Sheet:
    """Build the run sheet that the reports are made from. The first corpus of each task is the corpus of the scale."""
    corpora = {task: [] for task in tasks.names()}
    for name, corpus in parameters.corpora.items():
        corpora[corpus.task].append((name, corpus))
    return Sheet(
        scale=parameters.scale,
        corpora={task: named[0][1].corpus for task, named in corpora.items() if named},
        baselines={task: {corpus.baseline: name for name, corpus in named} for task, named in corpora.items()},
        runs={task: {name: _sheet_line(parameters, task, name) for name in parameters.lines(task)} for task in corpora},
    )


def _sheet_line(parameters: Parameters, task: str, name: str) -> SheetLine:
    run = parameters.run(task, name)
    current = next(job.parameters_hash for _, job in jobs_of_run(parameters, run) if isinstance(job, ScoreJob))
    return SheetLine(**run.model_dump(include=set(SheetLine.model_fields)), parameters_hash=current)


def write_jobs(parameters: Parameters, into: Path) -> None:
    """Write all job files. An unchanged job keeps its bytes, so its stage does not run again."""
    for path, content in job_files(parameters).items():
        write_text(into / path, content)


def code_hashes(stage: str, job: Section) -> dict[str, str]:
    """Return hashes of the code that a stage runs for a job; empty if the code cannot change the output.

    Training jobs have a hash for each file, which shows what an edit would train again. Jobs of other stages have a hash for each
    subpackage.
    """
    if stage in PINNED:
        return {}
    of_code = CODE.of_files if stage.startswith("train-") else CODE.of_packages
    return of_code(*code_roots(stage, job))


def code_roots(stage: str, job: Section) -> tuple[str, ...]:
    """Return the roots of the code of a stage (see Code.of_files): its function, and the modules that the job names."""
    function = stage.split("-")[0]
    return f"{STAGES}:{function}()", *_named(function, job)


def _named(stage: str, job: Section) -> Iterator[str]:
    """Yield the modules that a stage imports by a name in its job, and definitions in the module of a task."""
    run: Run | None = getattr(job, "run", None)
    if run and stage not in ("score", "recall"):
        yield f"reproduction.training.models.{run.architecture}"
    if stage == "train" and run:
        yield f"raretokens.objectives.{declared(run.objective).module}"
        yield f"reproduction.training.rules.{job.training.rule.name}"
    if stage in OF_TASK:
        names = tasks.names() if stage == "report" else [run.task if run else job.task]
        yield from (f"reproduction.tasks.{task}:{name}" for task in names for name in OF_TASK[stage])
    if stage == "prepare":
        yield f"reproduction.corpora.{known_corpora(job.kind)[job.corpus]}"
        yield from (
            f"reproduction.corpora.{borrowable_tests()[test]}" for test in job.extra_tests if test in borrowable_tests()
        )
    if stage == "similarity":
        yield f"reproduction.corpora.{known_corpora(stage)[stage]}"


def remove_stale_scores(sheet: Sheet, *folders: Path) -> None:
    """Remove <task>/<run>.* of each folder if the run is no longer on the run sheet, since no stage owns those files."""
    for folder in folders:
        for path in sorted(folder.glob("*/*.*")):
            task, run = path.parent.name, path.name.split(".")[0]
            if run not in {*sheet.runs.get(task, {}), *sheet.baselines.get(task, {})}:
                path.unlink()
