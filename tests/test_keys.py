"""Every key of params.yaml reaches the jobs of the stages that read it: else an old value would stay in their answer."""

import ast
import copy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from raretokens.yaml_files import checked
from reproduction import tasks
from reproduction.pipeline import jobs
from reproduction.pipeline.job_file import params_hash
from reproduction.pipeline.parameters_file import schema

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/reproduction"
TREE = yaml.safe_load((ROOT / "params.yaml").read_text())
# Of each task, runs of different sizes and tokens.
RUNS = {
    "lm": ("agg", "word-mle"), "nmt": ("base-agg", "big-mle"), "recurrent": ("awd-mle", "mos-mle"),
    "skipgram": ("sg-frage",), "classify": ("cls-frage",), "images": ("cnn",),
}  # fmt: skip
CONTINUED = {"recurrent": ("awd-mle-finetune", "mos-mle-finetune")}
# Nothing that a stage makes follows from them: where the code is, and where the same bytes come from.
ELSEWHERE = {"root", "mirror"}
NAMES = {"task", "tokens", "size", "architecture", "model"}
# By the last part of a key; all else becomes another number, a longer word or a shorter list.
OTHER: dict[str, Any] = {
    "mirror": "elsewhere", "corpus": "own", "baseline": "another", "scale": "another", "activation": "gelu",
    "length_penalty_form": "gnmt", "compute_type": "int8", "objective": "cosreg", "init_from": "mos-mle", "name": "adam",
    "option_from": "lm.models.demo.attention_dropout", "validate_every": 7, "validation_tokens": 7, "keep": 7, "tokenise": False,
    "sentences": 7, "max_pairs": 7, "batches": 7, "tokens": 7, "extra_tests": ["test_2017_flickr"],
    "fractions": [0.4, 0.4, 0.2], "betas": [0.8, 0.9],
}  # fmt: skip


def leaves(tree: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, (*above, key))
    else:
        yield above


def sheet(kept: set[str]) -> dict:
    """The demo with a few runs of some tasks."""
    tree = copy.deepcopy(TREE)
    for key, wanted in (("runs", RUNS), ("continued", CONTINUED)):
        tree[key] = {task: {name: TREE[key][task][name] for name in wanted[task]} for task in kept & wanted.keys()}
    return tree


def changed(tree: dict, key: tuple[str, ...]) -> dict:
    """The tree with another value at a key."""
    tree = copy.deepcopy(tree)
    place = tree
    for part in key[:-1]:
        place = place[part]
    place[key[-1]] = other(key[-1], place[key[-1]])
    return tree


def other(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if value is None or value != OTHER.get(name, value):
        return OTHER.get(name, 20)
    if isinstance(value, list):
        return value[1:] or [*value, *value]
    return value + 1 if isinstance(value, int) else (value + 0.4) / 2 if isinstance(value, float) else f"{value}-other"


def is_name(key: tuple[str, ...]) -> bool:
    """Of another part, which has keys of its own."""
    return key[-1] in NAMES or (key[0], key[-1]) == ("tokens", "corpus")


def jobs_of(tree: dict) -> dict[tuple[str, str], str]:
    """Stage and name -> mark of what it is told."""
    parameters = checked(schema(), tree, "params.yaml")
    return {(stage, name): params_hash([job]) for stage, name, job in jobs.all_jobs(parameters)}


def differing(one: dict, two: dict) -> set[str]:
    return {stage for stage, name in one.keys() | two.keys() if one.get((stage, name)) != two.get((stage, name))}


@pytest.mark.parametrize("task", [*tasks.names(), "all"])
def test_a_change_of_any_key_changes_a_job(task):
    """Of a task, its section and its lines on the run sheet; of all, the rest."""
    tree = sheet({*RUNS} if task == "all" else {task})
    before, silent = jobs_of(tree), set()
    for key in leaves(tree):
        owner = key[key[0] in ("runs", "continued")]
        if (owner if owner in RUNS else "all") != task or is_name(key):
            continue
        if not differing(before, jobs_of(changed(tree, key))):
            silent.add(".".join(key))
    assert silent == (ELSEWHERE if task == "all" else set())


SCORES = {
    "score-lm",
    "decompose-lm",
    "score-nmt",
    "recall-nmt",
    "score-recurrent",
    "score-skipgram",
    "score-classify",
    "score-images",
}


@pytest.mark.parametrize(
    ("key", "stages"),
    {
        "seed": SCORES
        | {"predict-lm", "translate", "predict-recurrent", "predict-classify", "predict-images"}
        | {f"train-{task}" for task in RUNS},
        "threads": SCORES | {"prepare", "predict-lm", "translate", "predict-recurrent"},
        "alpha": {"train-lm", "predict-lm", "score-lm", "decompose-lm"},
        "corpora.lm.corpus": {"prepare", "score-lm", "decompose-lm", "score-recurrent", "score-skipgram"},
        "tokens.lm.groups.fractions": {"train-lm", "predict-lm", "score-lm", "decompose-lm", "baseline"},
        "tokens.skipgram.vocabulary.min_count": {"encode", "score-skipgram"},
        "alignments.nmt.max_pairs": {"align", "score-nmt", "recall-nmt"},
        "lm.training.peak_lr": {"train-lm", "score-lm", "decompose-lm"},
        "lm.evaluation.window": {"predict-lm", "score-lm", "decompose-lm"},
        "lm.evaluation.continuation.prefix": {"predict-lm", "score-lm", "decompose-lm", "baseline"},
        "lm.neighbours": {"score-lm", "decompose-lm"},
        "lm.projection_steps": {"score-lm", "decompose-lm"},
        "nmt.alpha": {"train-nmt", "translate", "score-nmt", "recall-nmt"},
        "nmt.training.block": {"train-nmt", "translate", "score-nmt", "recall-nmt"},  # translations are as long as that
        "nmt.training.keep": {"train-nmt", "translate", "score-nmt", "recall-nmt"},
        "nmt.decoding.beam": {"translate", "score-nmt", "recall-nmt", "baseline"},
        "nmt.neighbour_ranks.shekel": {"score-nmt", "recall-nmt"},
        "recurrent.evaluation.pointer.theta": {"predict-recurrent", "score-recurrent"},
        "recurrent.models.awd.hidden": {"train-recurrent", "predict-recurrent", "score-recurrent"},
        "classify.training.block": {"train-classify", "predict-classify", "score-classify"},
    }.items(),
)
def test_a_key_reaches_the_stages_that_read_it(key, stages):
    """And no other, but the report, which knows scores by the parameters that made them."""
    tree = sheet({*RUNS})
    assert differing(jobs_of(tree), jobs_of(changed(tree, tuple(key.split("."))))) == stages | {"report"}


def reads_parameters(file: Path) -> bool:
    """Whether a file knows where params.yaml is."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and node.value == "params.yaml":
            return True
        if (
            isinstance(node, ast.Attribute | ast.Name)
            and getattr(node, "attr", getattr(node, "id", "")) == "PARAMETERS"
        ):
            return True
    return False


def functions(file: Path) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_no_stage_reads_params_yaml_beside_its_job():
    """But `jobs`, which writes them, and what changes no answer: where a file comes from, and where one's own text is."""
    stages = functions(PACKAGE / "pipeline/stages.py")
    readers = {path for path in PACKAGE.rglob("*.py") if reads_parameters(path)} - {PACKAGE / "paths.py"}
    context, checking = PACKAGE / "pipeline/surroundings.py", PACKAGE / "papers/load.py"
    assert {context, PACKAGE / "pipeline/parameters_file.py", checking} <= readers
    in_context = {name for name, node in functions(context).items() if "PARAMETERS" in ast.unparse(node)}
    assert in_context == {"mirror", "own_file"}
    for name, node in stages.items():
        run = {jobs.CODE.source / file for file in jobs.CODE.of_files(f"{jobs.STAGES}:{name}()")}
        assert (run & readers <= {checking}) is (name != "jobs"), name  # claims name runs of all scales
        assert any(f"surroundings.{reader}" in ast.unparse(node) for reader in in_context) is (name in ("fetch", "own")), (
            name
        )


def test_jobs_are_made_without_torch_and_scipy():
    """The stage runs at every `dvc repro`, and importing them takes longer than all that it does."""
    code = """
import sys
from pathlib import Path
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.jobs import all_jobs
for file in sys.argv[1:]:
    assert len(list(all_jobs(load(Path(file))))) > 100
sys.exit(bool({"torch", "scipy"} & {*sys.modules}))
"""
    files = [str(ROOT / folder / "params.yaml") for folder in (".", "scales/small", "scales/paper")]
    done = subprocess.run([sys.executable, "-c", code, *files], env={"PYTHONPATH": str(PACKAGE.parent)}, cwd=ROOT)
    assert done.returncode == 0
