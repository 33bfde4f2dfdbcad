"""The ways that docs/architecture.md describes are those that the code takes."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tiny import world

import raretokens
from raretokens.evidence.scores import AllScores
from raretokens.evidence.verdict import Outcome, judge
from raretokens.papers import load
from raretokens.pipeline import context, jobs, stages
from raretokens.pipeline.config import load as load_parameters
from raretokens.pipeline.job_file import load_job
from raretokens.pipeline.jobs import run_sheet
from raretokens.report import claims
from raretokens.report.cells import Cell
from raretokens.report.paper_pages import pages
from raretokens.report.tables import table_cells
from raretokens.run import Sheet
from raretokens.training.config import Execution, Observer

ROOT = Path(__file__).parents[1]
PACKAGE = Path(raretokens.__file__).parent


def described(heading: str) -> set[str]:
    """The files of the package that the lines of a way name."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in text.split("\n") if line[:1] in " 0123456789"]
    return {name for line in lines for name in re.findall(r"`(\w+(?:/\w+)*\.py)`", line)}


def executed(function: Callable[[], object]) -> set[str]:
    """The Python files of the package in which a function calls anything."""
    files: set[str] = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_name not in ("<lambda>", "<module>"):
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return {str(Path(file).relative_to(PACKAGE)) for file in files if Path(file).is_relative_to(PACKAGE) and file.endswith(".py")}


def test_a_claim_reaches_its_verdict_on_the_way_that_is_described(monkeypatch):
    monkeypatch.chdir(ROOT / "scales/small")
    declared = load.load_declarations(ROOT / "data/paper")
    declared._reported.clear()
    scores = AllScores(run_sheet(load_parameters()), Path("reports/runs"))
    name = "agg-lowers-rare-perplexity"

    def judged() -> None:
        claim = load._claims(ROOT / "data/paper")[name]
        verdict = judge(name, claim, scores["lm"], declared)
        assert verdict.outcome is Outcome.REPRODUCED
        claims.to_csv([verdict]), pages([verdict], declared, "small", scores)

    way = described("From a claim to its verdict")
    assert executed(judged) == way and len(way) <= 18


ALPHA = 1.0271828  # no other number of the tiny world


def handled(function: Callable[[], object], is_it: Callable[[Any], bool], values: Callable[..., list]) -> set[str]:
    """The files of the package with a function that handles a value: by itself, or inside of a dictionary, list or tuple.

    values: of a frame and what it returns, those that count.
    """
    files: set[str] = set()

    def note(frame: FrameType, event: str, returned: Any) -> None:
        name = frame.f_code.co_filename
        is_new = event == "return" and name not in files and name.startswith(f"{PACKAGE}/") and name.endswith(".py")
        if is_new and frame.f_code.co_name != "<module>" and any(map(is_it, inside(values(frame, returned)))):
            files.add(name)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return {str(Path(file).relative_to(PACKAGE)) for file in files}


def seen(frame: FrameType, returned: Any) -> list:
    """All local variables, what is returned, and the attributes of `self` and of the object that is returned."""
    objects = (frame.f_locals.get("self"), returned)
    return [*frame.f_locals.values(), returned, *(vars(one) for one in objects if hasattr(one, "__dict__"))]


def passed(frame: FrameType, returned: Any) -> list:
    """The arguments, and what is returned."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
    return [*(frame.f_locals.get(name) for name in names), returned]


def inside(value: Any, depth: int = 8) -> Iterator[Any]:
    """The value, and all that a container holds."""
    yield value
    if depth and isinstance(value, (dict, list, tuple)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from inside(one, depth - 1)


@pytest.fixture
def tiny(tmp_path, monkeypatch, other_accelerator) -> None:
    """The tiny world, here with language models alone; whoever watches a training, and hashes of code, are left out."""
    tree = world.parameters()
    tree = {
        key: value for key, value in tree.items() if key not in ("nmt", "recurrent", "skipgram", "classify", "images")
    }
    tree |= {key: {"lm": tree[key]["lm"]} for key in ("corpora", "tokens")}
    tree["own"] = {key: path for key, path in tree["own"].items() if key.startswith("lm-")}
    tree["corpora"]["lm"]["languages"] = {"text": "xx"}  # else it needs the sets of English word similarity
    tree |= {"alpha": ALPHA, "alignments": {}, "runs": {"lm": {run: tree["runs"]["lm"][run] for run in ("mle", "agg")}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    (tmp_path / "texts").mkdir()
    for seed, (split, count) in enumerate({"train": 400, "valid": 40, "test": 60}.items()):
        lines, _ = world.lines(count, seed)
        (tmp_path / f"texts/{split}.source").write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(context, "training", lambda job, train: train(Execution(), Observer()))
    monkeypatch.setattr(jobs, "code_hashes", lambda stage, job: {})
    for split in ("train", "valid", "test"):
        stages.own(f"lm-{split}")


def test_alpha_reaches_the_gate_on_the_way_that_is_described(tiny):
    """Every file that handles the number, those included that only check it, log it or tell runs apart by it."""

    def is_alpha(value: Any) -> bool:
        if isinstance(value, (str, bytes)):
            return (str(ALPHA) if isinstance(value, str) else str(ALPHA).encode()) in value
        return isinstance(value, float) and value == ALPHA

    files = handled(stages.jobs, is_alpha, seen)
    stages.prepare("lm"), stages.encode("lm", "lm")
    files |= handled(lambda: stages.train("lm", "agg"), is_alpha, seen)
    assert files == described("From alpha to the gate") and len(files) <= 17


def test_a_token_reaches_its_cell_on_the_way_that_is_described(tiny):
    """Files with a function that receives or returns what follows.

    Until the answers of the model are written: whole numbers in an array or a tensor, or a list of so many that it is a sentence;
    so counts of tokens count too. Then the perplexity of rare targets, as a number, in a text or in the cell.
    """

    def is_ids(value: Any) -> bool:
        if isinstance(value, (np.ndarray, torch.Tensor)):
            return (
                value.shape != () and "int" in str(value.dtype) and "uint8" not in str(value.dtype)
            )  # not a random state
        return isinstance(value, list) and len(value) > 4 and type(value[0]) is int

    def is_number(value: Any) -> bool:
        if isinstance(value, Cell):
            return value.measured == f"{number:.2f}"
        return (
            str(number) in value
            if isinstance(value, str)
            else isinstance(value, float) and math.isclose(value, number, rel_tol=1e-5)
        )

    stages.jobs(), stages.prepare("lm")
    files = handled(lambda: (stages.encode("lm", "lm"), stages.train("lm", "mle"), stages.predict("lm", "mle")), is_ids, passed)
    stages.score("lm", "mle")
    number = json.loads(Path("reports/runs/lm/mle.json").read_text())["metrics"]["ppl"]["rare"]
    declared, sheet = load.load_declarations(ROOT / "data/paper"), load_job(Sheet, "report", "all")

    def scored_and_shown() -> None:
        stages.score("lm", "mle")
        cells = table_cells(
            declared, declared.table("agg-3"), AllScores(sheet, Path("reports/runs")), sheet.corpora, False
        )
        assert any(map(is_number, cells))

    files |= handled(scored_and_shown, is_number, passed)
    assert files == described("From a token to its cell") and len(files) <= 25
