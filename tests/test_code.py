"""What of the code counts for a stage: the definitions that it names, and whole files that these import."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import yaml
from tiny import world

from raretokens.yaml_files import checked
from reproduction.pipeline import jobs
from reproduction.pipeline.code import Code
from reproduction.pipeline.parameters_file import schema

START = "raretokens.start:go"
OTHER = "import os\nFIRST = 1\ndef used(): return 2 + FIRST"


def hashes(folder: Path, files: dict[str, str], root: str = START) -> dict[str, str]:
    """Of a package of such files."""
    for name, text in {"__init__.py": "", "room/__init__.py": "", "other.py": OTHER, **files}.items():
        path = folder / "raretokens" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Code(folder).of_files(root)


@pytest.mark.parametrize(
    ("start", "counts"),
    [
        ("from raretokens.other import used\ngo = [used()]", True),
        ("from raretokens.other import used as other\ngo = [other]", True),
        ("from raretokens import other\ndef go(): return other.used", True),
        ("import raretokens.other\nclass go:\n def f(self): raretokens.other.used()", True),
        ("import raretokens.other as that\nclass go:\n x = that.used", True),
        ("def go():\n from raretokens.other import used\n return used", True),
        ("from raretokens.other import used\ndef helper(): return used\ndef go(): return helper()", True),
        ("from raretokens.other import used\ndef go(x=used): 0", True),
        ("from raretokens.other import used\n@used\ndef go(): 0", True),
        ("from raretokens.other import used\nclass go(used): 0", True),
        ("from raretokens.other import used\nclass go:\n used = used", True),
        ("from raretokens.other import used\ndef go():\n global used\n used = 1", True),
        ("from raretokens.middle import shown\ngo = [shown()]", True),
        ("from raretokens.room.file import shown\ngo = shown", True),
        ("try:\n from raretokens import other\nexcept ImportError:\n other = None\ndef go(): return other.used", True),
        ("from raretokens.other import used\ndef helper(): return used\ndef go(): return 0", False),
        ("from raretokens.other import used\ndef go(used): return used", False),
        ("from raretokens.other import used\ndef go():\n used = 1\n return used", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n from raretokens.other import used\ngo = 0", False),
        ("def go():\n '''raretokens.other'''", False),
    ],
)
def test_a_definition_brings_the_files_that_it_imports(tmp_path, start, counts):
    further = dict.fromkeys(("middle.py", "room/file.py"), "from raretokens.other import used as shown")
    before = hashes(tmp_path, {**further, "start.py": start})
    for line in ("2 + FIRST", "FIRST = 1", "import os"):
        other = OTHER.replace(line, line.replace("os", "re").replace("1", "3").replace("2", "4"))
        assert (hashes(tmp_path, {**further, "start.py": start, "other.py": other}) != before) is counts, line


@pytest.mark.parametrize("name", ["__init__.py", "room/__init__.py"])
def test_packages_on_the_way_are_run(tmp_path, name):
    files = {"start.py": "from raretokens.room.file import used\ngo = [used()]", "room/file.py": "def used(): 0"}
    assert hashes(tmp_path, {**files, name: "print(1)"}) != hashes(tmp_path, files)


@pytest.fixture(scope="module")
def parameters():
    return checked(schema(), yaml.safe_load((world.ROOT / "params.yaml").read_text()), "params.yaml")


def test_modules_that_are_found_by_name_are_named_by_the_job(parameters):
    """Each import_module that a stage can reach puts together a name of which the job has a module."""
    code, seen = jobs.CODE, set[str]()
    those = [(stage, job) for stage, _, job in jobs.all_jobs(parameters) if stage not in (*jobs.PINNED, "report")]
    for roots in {jobs.code_roots(stage, job) for stage, job in those}:
        named = [root.partition(":")[0] for root in roots]
        for file in code.of_files(*roots):
            if file.endswith(".py") and not file.startswith(("reproduction/pipeline/stages", "reproduction/tasks/__init__")):
                for pattern in patterns(ast.parse((code.source / file).read_text(encoding="utf-8"))):
                    assert any(re.fullmatch(pattern, name) for name in named), f"{roots}: {file}: {pattern}"
                    seen.add(pattern)
    assert len(seen) >= 4


def patterns(tree: ast.AST) -> Iterator[str]:
    """Of the names of modules that code puts together; a name that is written out is a lazy import of the library."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and "import_module" in (getattr(call.func, "id", ""), getattr(call.func, "attr", "")):
            if isinstance(call.args[0], ast.Constant):
                continue
            text = ast.unparse(call.args[0])[2:-1]
            yield re.sub(r"\\\{.*?\}", r"\\w+", re.escape(text).replace(r"\}", "}"))


def test_no_two_files_of_the_packages_need_each_other():
    code = Code()
    files = {file: code._of_file(file)[1] - {file} for file in code.modules.values() if file.name != "__init__.py"}
    TopologicalSorter({file: needed & files.keys() for file, needed in files.items()}).prepare()  # raises CycleError
