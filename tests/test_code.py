"""What of the code counts for a stage: what it can reach by name, and nothing else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tiny import world
from tiny.mutated import mutated

from raretokens.yaml_files import checked
from reproduction.pipeline import jobs
from reproduction.pipeline.code import Code
from reproduction.pipeline.parameters_file import schema

START = "raretokens.start:go"


def hashes(folder: Path, files: dict[str, str], root: str = START) -> dict[str, str]:
    """Of a package of such files."""
    package = folder / "raretokens"
    for name, text in {"__init__.py": "", **files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Code(folder).of_files(root)


def assert_counts(tmp_path: Path, start: str, other: str, edits: dict[str, bool], file: str = "other.py") -> None:
    """edits: line of the other file -> whether another line in its place counts."""
    further = {"room/__init__.py": ""}
    before = hashes(tmp_path, {**further, "start.py": start, file: other})
    for line, counts in edits.items():
        assert line in other
        changed = other.replace(line, line.replace("1", "2"))
        assert changed != other
        assert (hashes(tmp_path, {**further, "start.py": start, file: changed}) != before) is counts, line


OTHER = """
import os
FIRST = 1
def used(): return helper()
def helper(): return FIRST + 1
def unused(): return 100
class Unused: size = 1000
"""
EDITS = {"FIRST = 1\n": True, "FIRST + 1": True, "100\n": False, "1000\n": False}
ALL = dict.fromkeys(EDITS, True)
NONE = dict.fromkeys(EDITS, False)


@pytest.mark.parametrize(
    ("start", "edits"),
    [
        ("from raretokens.other import used\ngo = [used()]", EDITS),
        ("from raretokens.other import used as other\ngo = [other]", EDITS),
        ("from raretokens import other\ndef go(): return other.used", EDITS),
        ("import raretokens.other\nclass go:\n def f(self): raretokens.other.used()", EDITS),
        ("import raretokens.other as that\nclass go:\n x = that.used", EDITS),
        ("def go():\n from raretokens.other import used\n return used", EDITS),
        ("def go():\n import raretokens.other as that\n def g(): return that.used()", EDITS),
        ("from .other import used\ngo = used", EDITS),
        ("from raretokens.other import *\ngo = 0", ALL),
        ("from raretokens import other\nprint(other)\ngo = 0", ALL),
        ("from raretokens import other\ndef go(name): return getattr(other, name)", ALL),
        ("from raretokens import other\ngo = other.nothing", ALL),
        ("from importlib import import_module\ndef go(): return import_module('raretokens.other')", ALL),
        ("try:\n from raretokens import other\nexcept ImportError:\n other = None\ndef go(): return other.used", ALL),
        ("if True:\n from raretokens.other import used\ngo = 0", EDITS),
        ("from raretokens.other import used\ndef go(x=used): 0", EDITS),
        ("from raretokens.other import used\n@used\ndef go(): 0", EDITS),
        ("from raretokens.other import used\nclass go(used): 0", EDITS),
        ("from raretokens.other import used\nclass go:\n x: used", EDITS),
        ("from raretokens.other import used\nclass go:\n x: 'list[used]'", EDITS),
        ("from raretokens.other import used\ndef go(x: 'used') -> None: 0", EDITS),
        ("from raretokens.other import used\ndef go():\n return [used for x in range(3)]", EDITS),
        ("from raretokens.other import used\ndef go():\n global used\n used = 1", EDITS),
        ("from raretokens.other import used\nclass go:\n used = used", EDITS),
        ("from raretokens.other import used\ndef go(used): return used", NONE),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n from raretokens.other import used\ngo = 0", NONE),
        ("def go():\n '''raretokens.other'''", NONE),
    ],
)
def test_a_name_brings_its_definition_and_what_that_needs(tmp_path, start, edits):
    assert_counts(tmp_path, start, OTHER, edits)


def test_all_of_a_module_counts_that_a_job_names(tmp_path):
    """Who has it may take any name from there, also one that stands for another's."""
    start = "from raretokens.other import used\ndef f(): return 1"
    before = hashes(tmp_path, {"start.py": start, "other.py": OTHER}, "raretokens.start")
    assert hashes(tmp_path, {"start.py": start.replace("1", "2"), "other.py": OTHER}, "raretokens.start") != before
    for line, counts in (("FIRST + 1", True), ("100", False)):
        other = OTHER.replace(line, line.replace("1", "2"))
        assert (hashes(tmp_path, {"start.py": start, "other.py": other}, "raretokens.start") != before) is counts


@pytest.mark.parametrize(
    ("other", "edits"),
    [
        ("def used(): 0\nprint(1)", {"print(1)": True}),
        ("import sys\ndef used(): 0\nsys.x = 1", {"sys.x = 1": True}),
        ("def used(): 0\nif used:\n X = 1", {"X = 1": True}),
        ("def used(): 0\ndef register(f): return f\n@register\ndef g(): return 1", {"return 1": True}),
        ("from functools import cache\ndef used(): 0\n@cache\ndef g(): return 1", {"return 1": False}),
        ("def used(): 0\ndef make(): return 1\nX = make()", {"return 1": True}),
        ("import torch\ndef used(): 0\nX = torch.set_num_threads(1)", {"(1)": True}),
        ("import re\ndef used(): 0\nX = re.compile('1')", {"'1'": False}),
        ("X = 0\nX += 1\ndef used(): return X", {"X += 1": True}),
        ("def used(): return globals()['X']\nX = 1", {"X = 1": True}),
        ("def used():\n '''1'''", {"1": False}),
        ("def used(): 0  # 1", {"# 1": False}),
        ("def used(): return '''\n\n1'''", {"\n1": True}),
        ("import x1 as x\ndef used(): return x", {"x1": True}),
        ("import x1\ndef used(): return 0", {"x1": True}),  # a library that nothing uses is imported for what that does
        ("import x1 as x\ndef used(): return 0\ndef g(): return x", {"x1": False}),
    ],
)
def test_what_importing_a_file_does_counts(tmp_path, other, edits):
    assert_counts(tmp_path, "from raretokens.other import used\ngo = [used()]", other, edits)


def test_packages_on_the_way_are_run(tmp_path):
    start = "from raretokens.room.file import used\ngo = [used()]"
    files = {"start.py": start, "room/file.py": "def used(): 0", "room/__init__.py": "print(1)"}
    before = hashes(tmp_path, files)
    assert hashes(tmp_path, {**files, "room/__init__.py": "print(2)"}) != before
    assert hashes(tmp_path, {**files, "room/__init__.py": "print(1)\nX = 2"}) == before


def test_a_name_that_stands_for_another_s_is_followed(tmp_path):
    files = {"middle.py": "from raretokens.other import used as shown", "other.py": OTHER}
    edits = {"FIRST + 1": True, "100\n": False}
    for start in (
        "from raretokens.middle import shown\ngo = [shown()]",
        "from raretokens import middle\ngo = [middle.shown]",
    ):
        before = hashes(tmp_path, {**files, "start.py": start})
        for line, counts in edits.items():
            changed = {**files, "other.py": OTHER.replace(line, line.replace("1", "2")), "start.py": start}
            assert (hashes(tmp_path, changed) != before) is counts, (start, line)


def test_two_names_that_change_places_count(tmp_path):
    other = "def f(): return 1\ndef g(): return 2"
    one, two = (
        "from raretokens.other import f as {}, g as {}\ngo = f() - 2 * g()".format(*names) for names in ("fg", "gf")
    )
    assert hashes(tmp_path, {"start.py": one, "other.py": other}) != hashes(
        tmp_path, {"start.py": two, "other.py": other}
    )


@pytest.mark.parametrize(
    "text", ["from pathlib import Path\ngo = Path(__file__).parent", "go = PackageLoader('raretokens.room')"]
)
def test_files_of_data_count_where_code_looks_for_them(tmp_path, text):
    place = "room/start.py" if "__file__" in text else "start.py"
    root = "raretokens.room.start:go" if "__file__" in text else START
    files = {place: text, "room/__init__.py": "", "room/templates/page.html": "one"}
    before = hashes(tmp_path, files, root)
    assert hashes(tmp_path, {**files, "room/templates/page.html": "two"}, root) != before
    assert hashes(tmp_path, {**files, "room/templates/page.html": "one", "data.csv": "two"}, root) == before


def test_files_of_data_in_an_inner_package_count_where_a_string_names_that_package(tmp_path):
    start = "def go(): PackageLoader('raretokens.room')\ndef inner(): PackageLoader('raretokens.room.pages')"
    files = {"start.py": start, "room/__init__.py": "", "room/pages/__init__.py": "", "room/pages/templates/page.html": "one"}
    other = {**files, "room/pages/templates/page.html": "two"}
    for root, counts in ((START, False), ("raretokens.start:inner", True)):
        assert (hashes(tmp_path, files, root) != hashes(tmp_path, other, root)) is counts


def test_a_function_of_the_stages_counts_without_the_top_of_its_file(tmp_path):
    start = "from raretokens.other import unused\ndef stage():\n from raretokens.other import used\n used(), unused()\ndef g(): 1"
    before = hashes(tmp_path, {"start.py": start, "other.py": OTHER}, "raretokens.start:stage()")
    assert [*before] == ["raretokens/other.py", "raretokens/start.py"]
    for line, counts in (("FIRST + 1", True), ("100", False)):
        other = OTHER.replace(line, line.replace("1", "2"))
        assert (
            hashes(tmp_path, {"start.py": start, "other.py": other}, "raretokens.start:stage()") != before
        ) is counts
    for edit, counts in (("used(), ", True), ("def g(): 1", False)):
        edited = {"start.py": start.replace(edit, f"{edit} + 2" if "g" in edit else ""), "other.py": OTHER}
        assert (hashes(tmp_path, edited, "raretokens.start:stage()") != before) is counts


class Edited(Code):
    """The code with another text in one of its files."""

    def __init__(self, code: Code, file: Path, text: str) -> None:
        super().__init__(code.source)
        self.modules = code.modules
        self.file, self.text = file, text

    def text_of(self, file: Path) -> str:
        return self.text if file == self.file else super().text_of(file)


@pytest.fixture(scope="module")
def parameters():
    return checked(schema(), yaml.safe_load((world.ROOT / "params.yaml").read_text()), "params.yaml")


@pytest.mark.parametrize("stage", ["train-lm", "score-lm"])
def test_an_edit_counts_exactly_where_the_stage_can_reach_it(parameters, stage):
    """Every other definition of the files that it runs."""
    code, roots = (
        Code(),
        next(jobs.code_roots(kind, job) for kind, _, job in jobs.all_jobs(parameters) if kind == stage),
    )
    before, reached, tried = code.of_files(*roots), code.reached(*roots), {True: 0, False: 0}
    for file, numbers in sorted(reached.items()):
        for number, statement in list(enumerate(code.statements(file)))[::2]:
            if statement.is_import or not statement.is_definition:
                continue
            changed = Edited(code, file, mutated(code.text_of(file), statement)).of_files(*roots) != before
            assert changed is (number in numbers), f"{file}: {statement.binds}"
            tried[changed] += 1
    assert min(tried.values()) > 5 and tried[True] > 50


def test_modules_that_are_found_by_name_are_named_by_the_job(parameters):
    """Each import_module that a stage can reach puts together a name of which the job has a module."""
    code, seen = Code(), set[str]()
    names = {path: name for name, path in code.modules.items()}
    for roots in {
        jobs.code_roots(stage, job) for stage, _, job in jobs.all_jobs(parameters) if stage not in jobs.PINNED
    }:
        named = [root.partition(":")[0] for root in roots]
        for file, numbers in code.reached(*roots).items():
            for number in numbers:
                for pattern in patterns(code.statements(file)[number].node, names[file]):
                    assert any(re.fullmatch(pattern, name) for name in named), f"{roots}: {file}: {pattern}"
                    seen.add(pattern)
    assert len(seen) >= 4


def patterns(node: ast.AST, module: str) -> Iterator[str]:
    """Of the names of modules that a statement puts together; a name that is written out is followed by itself."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and "import_module" in (
            getattr(call.func, "id", ""),
            getattr(call.func, "attr", ""),
        ):
            name = call.args[0]
            if isinstance(name, ast.JoinedStr):
                text = ast.unparse(name)[2:-1].replace("{__name__}", module)
                yield re.sub(r"\\\{.*?\}", r"\\w+", re.escape(text).replace(r"\}", "}"))
            else:
                assert isinstance(name, ast.Constant), ast.unparse(call)
