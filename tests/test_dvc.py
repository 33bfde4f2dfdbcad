"""The pipeline's declaration: the same at every scale, and honest about what each stage depends on."""

import ast
from pathlib import Path

import pytest
import yaml

from raretokens import consistency

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "raretokens"
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
# config.py turns parameters into objects; a stage's parameters are what DVC tracks of it.
# A plan can stop a run before it starts and never changes what it gives: editing it must not retrain anything.
PLANNING = PACKAGE / "planning"
# Errors and how files are read and written change no number.
EXEMPT = {PACKAGE / f"{name}.py" for name in ("config", "consistency", "errors", "files", "sections", "__init__")}


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_every_scale_has_the_same_pipeline(scale):
    assert (ROOT / "scales" / scale / "dvc.yaml").read_bytes() == (ROOT / "dvc.yaml").read_bytes()


def imports(file: Path) -> set[Path]:
    """Files of the package that a file imports by itself, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "raretokens":
                path = PACKAGE.joinpath(*parts[1:])
                found |= {path for path in (path.with_suffix(".py"), path / "__init__.py") if path.is_file()}
    return found


def closure(file: Path) -> set[Path]:
    seen, todo = set(), [file]
    while todo:
        new = {path for path in imports(todo.pop()) - seen if PLANNING not in path.parents}
        seen |= new
        todo += new - {PACKAGE / "__init__.py"}  # it loads its names when they are used
    return seen - EXEMPT


def body(name: str) -> dict:
    return STAGES[name].get("do", STAGES[name])


def is_covered(path: Path, deps: list[Path]) -> bool:
    return any(path == dep or dep in path.parents for dep in deps)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_all_the_code_that_it_imports(name):
    entry = ROOT / "stages" / f"{body(name)['cmd'].split()[2]}.py"
    deps = [ROOT / dep.removeprefix("${root}/") for dep in body(name)["deps"] if dep.startswith("${root}/")]
    assert entry in deps
    used = closure(entry)
    if name == "fetch":
        used = set()  # what it leaves is pinned by size and sha256: the source's entry is all that it depends on
    if name.startswith("train-"):
        other = {"train-lm": "encoder_decoder.py", "train-nmt": "decoder.py"}[name]
        used -= {PACKAGE / "models" / other}  # imported only by runs of the other task
    assert sorted(str(path.relative_to(ROOT)) for path in used if not is_covered(path, deps)) == []


@pytest.mark.parametrize("objective", consistency.objectives())
def test_an_objective_needs_no_other_objective_s_file(objective):
    """A run depends on the file of its own objective alone, so that editing one retrains no other."""
    others = {path for path in closure(PACKAGE / "objectives" / f"{objective}.py") if path.parent.name == "objectives"}
    assert others <= {PACKAGE / "objectives" / "__init__.py"}


def test_expensive_stages_stay_in_the_run_cache():
    """DVC keeps a stage out of its run cache if an output that is no metric has `cache: false`; scoring is cheap."""
    for name in STAGES:
        if not name.startswith(("report", "score-", "compare")):
            assert all(isinstance(out, str) for out in body(name).get("outs", [])), name
