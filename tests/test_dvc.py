"""The pipeline's declaration: the same at every scale, and what an edit of the code makes run again."""

import ast
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from tiny import world
from tiny.mutated import mutated

from raretokens.objectives.registry import known
from raretokens.yaml_files import checked
from reproduction.pipeline import jobs
from reproduction.pipeline.code import Code
from reproduction.pipeline.parameters_file import schema

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
RUNS = {
    "lm": ("mle", "agg", "ul-agg", "word-mle"),
    "nmt": ("base-mle", "base-agg"),
    "recurrent": ("awd-mle", "mos-mle"),
    "skipgram": ("sg-mle", "sg-frage"),
    "classify": ("cls-mle", "cls-frage"),
    "images": ("cnn",),
}


def body(name: str) -> dict:
    return STAGES[name].get("do", STAGES[name])


@pytest.mark.parametrize("name", sorted({*STAGES} - {"jobs"}))
def test_a_stage_depends_on_its_job_and_on_no_parameter_and_no_code(name):
    deps, key = body(name)["deps"], "${key}" if "foreach" in STAGES[name] else "all"
    if name == "fetch":
        key = "${item}"
        deps = [dep for dep in deps if not dep.endswith("table/${item}.yaml")]
    assert f"data/jobs/{name.removesuffix('-continued')}/{key}.json" in deps
    assert "params" not in body(name)
    assert [dep for dep in deps if dep.startswith("${root}")] == (["${root}/data/paper"] if name == "report" else [])


def test_expensive_stages_stay_in_the_run_cache():
    """DVC keeps a stage out of its run cache if an output that is no metric has `cache: false`; scoring is cheap."""
    for name in STAGES:
        if not name.startswith(("report", "score-", "decompose-", "recall-", "baseline")):
            assert all(isinstance(out, str) for out in body(name).get("outs", [])), name


def test_a_continued_run_has_the_stages_of_others_and_waits_for_its_start():
    further = {name.removesuffix("-continued") for name in STAGES if name.endswith("-continued")}
    assert further == {name for name in STAGES if "runs." in STAGES[name].get("foreach", "") and name in further}
    for name in further:
        before, after = body(name), body(f"{name}-continued")
        assert STAGES[f"{name}-continued"]["foreach"] == STAGES[name]["foreach"].replace("runs.", "continued.")
        if name.startswith("train-"):
            task = name.removeprefix("train-")
            assert sorted(after["deps"]) == sorted([*before["deps"], f"data/runs/{task}/${{item.init_from}}"])
        assert {**after, "deps": 0} == {**before, "deps": 0}


def imported(file: Path) -> Iterator[str]:
    """Modules that a file names in imports of any kind, also where only a type checker sees them."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def room(file: Path) -> str:
    """The folder of a file in its package, or the file itself at the top of the package."""
    return "/".join(file.relative_to(SOURCE).parts[:2])


def rooms() -> list[str]:
    """The folders of both packages."""
    return [room(path) for path in SOURCE.glob("r*/*") if path.is_dir() and any(path.glob("*.py"))]


def arrows() -> dict[str, set[str]]:
    """Room -> rooms that it imports from."""
    rooms = defaultdict(set)
    for file in SOURCE.rglob("*.py"):
        for name in imported(file):
            target = jobs.CODE.modules.get(name) if "." in name else None
            if target and room(target) != room(file):
                rooms[room(file)].add(room(target))
    return rooms


def reached(rooms: dict[str, set[str]], start: str) -> set[str]:
    seen, waiting = set(), [start]
    while waiting:
        new = rooms.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


def test_the_library_does_without_the_reproduction():
    names = [name for file in (SOURCE / "raretokens").rglob("*.py") for name in imported(file)]
    assert "raretokens.vocabulary" in names and not [name for name in names if name.startswith("reproduction")]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the code, which jobs take for the code that stages run."""
    copy = tmp_path_factory.mktemp("copy") / "src"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "CODE", Code(copy))
        yield copy


@contextmanager
def edited(edits: dict[Path, Callable[[str], str]]) -> Iterator[None]:
    """Files are others for a while."""
    before, read = {file: file.read_text(encoding="utf-8") for file in edits}, jobs.CODE
    written({file: edit(before[file]) for file, edit in edits.items()})
    try:
        yield
    finally:
        for file, text in before.items():
            file.write_text(text, encoding="utf-8")
        jobs.CODE = read


def written(files: dict[Path, str]) -> None:
    """Write files of the copy, and read these alone again."""
    read = jobs.CODE
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    jobs.CODE = Code(read.source)
    jobs.CODE._trees = {file: tree for file, tree in read._trees.items() if file not in files}
    jobs.CODE._files = {file: found for file, found in read._files.items() if file not in files}
    jobs.CODE.modules = read.modules
    own = {root: read.modules[root.partition(":")[0]] for root in read._roots}
    jobs.CODE._roots = {root: found for root, found in read._roots.items() if own[root] not in files}


@pytest.fixture(scope="module")
def parameters():
    """A run sheet of few kinds of runs."""
    demo, tree = yaml.safe_load((ROOT / "params.yaml").read_text()), world.parameters()
    tree["runs"] = {task: {name: demo["runs"][task][name] for name in names} for task, names in RUNS.items()}
    tree["tokens"] |= {name: demo["tokens"][name] for name in ("skipgram", "documents", "images")}
    tree["corpora"] |= {name: demo["corpora"][name] for name in ("bible-verses", "digits")}
    tree["sources"] += ["bible-web", "digits"]
    return checked(schema(), tree, "params.yaml")


@pytest.fixture(scope="module")
def told(package, parameters):
    """Stage and name of each job -> its job, and where its code begins, which no edit of the code moves."""
    return {(stage, name): (job, jobs.code_roots(stage, job)) for stage, name, job in jobs.all_jobs(parameters)}


def hashes(told: dict) -> dict:
    """Stage and where its code begins -> hashes of the code."""
    distinct = {(stage, roots): job for (stage, _), (job, roots) in told.items()}
    return {key: jobs.code_hashes(key[0], job) for key, job in distinct.items()}


@pytest.fixture(scope="module")
def before(told):
    return hashes(told)


def stale(before: dict, told: dict) -> set[str]:
    """Stages that run again: `predict-lm` where all do, else `predict-lm@agg`."""
    after = hashes(told)
    names, changed = defaultdict(set), defaultdict(set)
    for (stage, name), (_, roots) in told.items():
        names[stage].add(name)
        if before[stage, roots] != after[stage, roots]:
            changed[stage].add(name)
    whole = {stage for stage, some in changed.items() if some == names[stage]}
    return whole | {f"{stage}@{name}" for stage in changed.keys() - whole for name in changed[stage]}


TRANSFORMERS = {"train-lm", "train-nmt"}
TRAIN = TRANSFORMERS | {"train-recurrent", "train-skipgram", "train-classify", "train-images"}
SCORE = {"score-lm", "score-nmt", "score-recurrent", "score-skipgram", "score-classify", "score-images"}
PREDICT = {"predict-lm", "translate", "predict-recurrent", "predict-classify", "predict-images"}
MODELS = TRANSFORMERS | {"predict-lm", "decompose-lm", "translate"}
ALL = {name for name in STAGES if not name.endswith("-continued")} - {"jobs", "fetch", "own"}
REPORTED = {"baseline@bible-verses", "baseline@digits", "report"}  # they import metrics for some of their parts
RUNNING = {
    "reproduction/pipeline/parameters_file.py:load": set(),
    "reproduction/corpora/bible.py:translation": {"prepare@bible-verses"},  # the other texts of the tiny world are its own
    "reproduction/corpora/download.py:fetch": set(),  # what it gives is pinned by its sha256
    "reproduction/corpora/own.py:NMT": {"prepare", "similarity", "report"},
    "reproduction/corpora/table/mangoes.yaml": {"prepare", "similarity", "report"},
    "reproduction/tasks/evaluation/decomposition.py:masses": {"decompose-lm"},
    "reproduction/tasks/evaluation/geometry.py:geometry": SCORE | REPORTED,
    "reproduction/tasks/evaluation/bleu.py:chrf": {"score-nmt", "recall-nmt", "baseline@nmt"},
    "raretokens/metrics/predictions.py:perplexity": SCORE | REPORTED | {"decompose-lm", "baseline@lm"},
    "reproduction/tasks/evaluation/language_model.py:write_predictions": {"predict-lm"},
    "raretokens/metrics/score_files.py:layout": SCORE | {"baseline", "decompose-lm", "recall-nmt", "report"},
    "raretokens/claims/intervals.py:Interval": {"report"},
    "reproduction/run_sheet.py:Sheet": {"report"},
    "raretokens/files.py:atomic_write": ALL,
    "raretokens/loss/gated_cross_entropy.py:gated_linear_cross_entropy": (
        TRAIN | {"predict-lm", "decompose-lm", "predict-classify", "predict-images", "report"}
    ),
    "reproduction/training/models/awd_lstm.py:WeightDroppedLSTM": {"train-recurrent", "predict-recurrent"},
    "reproduction/training/models/awd_lstm_mos.py:Mixture": {"train-recurrent@mos-mle", "predict-recurrent@mos-mle"},
    "reproduction/training/models/cnn.py:CNN": {"train-images", "predict-images"},
    "reproduction/training/models/decoder.py:Decoder": MODELS,
    "raretokens/objectives/agg.py:Objective": {"train-lm@agg", "train-lm@ul-agg", "train-nmt@base-agg"},
    "raretokens/objectives/frage.py:Objective": {"train-skipgram@sg-frage", "train-classify@cls-frage"},
    "raretokens/objectives/freeze.py:Objective": set(),
    "raretokens/objectives/mle.py:OPTIONS": {
        *("train-lm@mle", "train-lm@word-mle", "train-nmt@base-mle", "train-recurrent", "train-skipgram@sg-mle"),
        *("train-classify@cls-mle", "train-images"),
    },
    "reproduction/papers/claim.py:Claim": {"report"},
    "reproduction/pipeline/code.py:Code": set(),
    "reproduction/pipeline/surroundings.py:training": set(),
    "reproduction/pipeline/vocabulary_sizes.yaml": set(),
    "reproduction/pipeline/stages.py:predict": {"predict-lm", "predict-recurrent", "predict-classify", "predict-images"},
    "reproduction/report/cells.py:Cell": {"report"},
    "reproduction/report/templates/index.md": {"report"},
    "reproduction/tasks/lm.py:Settings": set(),
    "reproduction/tasks/lm.py:describe": {"report"},
    "reproduction/tasks/lm.py:metrics": {"score-lm"},
    "reproduction/tasks/lm.py:training_data": {"train-lm"},
    "reproduction/tasks/parameters.py:Parameters": {"report"},
    "reproduction/tasks/skipgram.py:criterion": {"train-skipgram"},
    "reproduction/corpora/tokenization/tokenizer.py:Tokenizer": {"encode", "score-lm", "translate"},
    "reproduction/corpora/tokenization/token_files.py:read_meta": (
        TRAIN | PREDICT | SCORE | {"decompose-lm", "encode", "align", "report", "baseline@lm", "baseline@nmt"}
    )
    - {"score-nmt", "score-skipgram"},
    "reproduction/commands/export.py:export_run": set(),
    "reproduction/training/criterion.py:Carried": TRAIN | {"report"},
    "reproduction/training/example_batches.py:Pairs": (
        {"train-nmt", "train-classify", "train-images", "predict-classify", "predict-images", "report"}
    ),
    "reproduction/training/loop.py:Trainer": TRAIN,
    "reproduction/training/rules/linear_sgd.py:LinearSGD": {"train-skipgram"},
    "reproduction/training/window_batches.py:Windows": {"train-skipgram"},
    "raretokens/transformers/trainer.py:ObjectiveTrainer": set(),
    "raretokens/measure/model.py:load_model": set(),
    "raretokens/loop/loop.py:Loop": set(),
}


@pytest.mark.parametrize("place", RUNNING)
def test_an_edit_makes_only_stages_run_again_that_it_can_change(package, before, told, place):
    """Of a definition, or of a file of data."""
    name, _, definition = place.partition(":")
    file = package / name

    def edit(text: str) -> str:
        return mutated(text, definition) if definition else f"{text}\nadded: 1\n"

    with edited({file: edit}):
        assert stale(before, told) == RUNNING[place]


def test_every_folder_has_a_file_whose_stages_are_listed():
    assert {*rooms()} <= {"/".join(name.split("/")[:2]) for name in RUNNING}


@pytest.mark.parametrize("objective", known())
def test_an_objective_needs_no_other_objective_s_file(package, objective):
    """A run depends on the file of its own objective alone, so that editing one retrains no other."""
    code = Code(package)
    files = {f"raretokens/objectives/{other.module}.py" for other in known().values()}
    own = known()[objective].module
    assert {*code.of_files(f"raretokens.objectives.{own}")} & files == {f"raretokens/objectives/{own}.py"}


def test_an_output_that_was_overwritten_comes_back_as_it_was(tmp_path):
    """The cache is no other name of it."""
    world.run(tmp_path, "git", "init", "-q")
    world.run(tmp_path, "dvc", "init", "-q")
    shutil.copy(ROOT / ".dvc/config", tmp_path / ".dvc/config")
    (tmp_path / "dvc.yaml").write_text("stages: {one: {cmd: echo good > out, outs: [out]}}\n")
    world.run(tmp_path, "dvc", "repro", "-q")
    (tmp_path / "out").chmod(0o644)
    (tmp_path / "out").write_text("evil\n")
    world.run(tmp_path, "dvc", "repro", "-q")
    assert (tmp_path / "out").read_text() == "good\n"
    for scale in ("small", "paper"):
        assert (ROOT / "scales" / scale / ".dvc/config").read_bytes() == (ROOT / ".dvc/config").read_bytes()
