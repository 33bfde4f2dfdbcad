"""The package as it is installed: its command explains itself, and its public names have types."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from raretokens.cli import RARETOKENS
from reproduction.commands import REPRODUCTION

ROOT = Path(__file__).parents[1]
MODULE = {"pyyaml": "yaml", "sil-thot": "thot"}  # package -> module
USER = """
import torch
from raretokens import Facts, Objective, build, facts
known: Facts = facts(torch.ones(8, dtype=torch.int64), width=4, steps_per_epoch=2)
objective: Objective = build("agg", known)
wrong: int = build("agg", known)
"""


@pytest.mark.parametrize("program", [RARETOKENS, REPRODUCTION], ids=["raretokens", "reproduction"])
def test_every_command_explains_itself(program, capsys):
    made = program.parser(program.commands)
    with pytest.raises(SystemExit) as left:
        made.parse_args(["--help"])
    assert left.value.code == 0 and all(f"\n    {name} " in made.format_help() for name in program.commands)
    assert all(f"\n  {audience}:\n" in made.format_help() for audience in program.audiences if audience)
    with pytest.raises(SystemExit) as left:
        made.parse_args(["--version"])
    assert left.value.code == 0 and "\nraretokens " in capsys.readouterr().out
    for name in program.commands:
        with pytest.raises(SystemExit) as left:
            made.parse_args([name, "--help"])
        assert left.value.code == 0 and f"{program.name} {name}" in capsys.readouterr().out
    parsers = made._subparsers._group_actions[0].choices
    assert not [f"{name} {given.dest}" for name, one in parsers.items() for given in one._actions if not given.help]


def run(*words: str, refused: tuple[str, ...] = (), package: str = "raretokens") -> subprocess.CompletedProcess[str]:
    """Run the command in a process that does not find the refused libraries."""
    code = f"import runpy, sys\nsys.modules |= dict.fromkeys({refused!r})\nrunpy.run_module({package!r}, run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
    )


@pytest.mark.parametrize(("package", "command", "library", "install"), [
    ("raretokens", "claims", "pydantic", "pip install pandas pydantic"),
    ("reproduction", "plan", "pydantic", "pip install '.[pipeline]' in the clone"),
    ("raretokens", "measure", "tokenizers", "pip install tokenizers"),
    ("raretokens", "--print-completion", "shtab", "pip install shtab"),
])  # fmt: skip
def test_a_missing_library_costs_one_line_with_the_packages_to_install(package, command, library, install):
    done = run(command, "bash", "bash", refused=(library,), package=package)
    assert done.returncode == 1 and done.stderr.startswith(f"error: {library} is not installed: {install}")


@pytest.mark.parametrize(("extra", "modules"), [
    ("claims", "raretokens.claims.command"),
    ("measure", "raretokens.measure.page"),
    ("", "raretokens.public, raretokens.measure.commands, raretokens.measure.output"),
], ids=["claims", "measure", "bare"])  # fmt: skip
def test_an_extra_has_all_packages_that_its_part_imports(extra, modules):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    listed = {name: {re.match(r"[\w-]+", line)[0] for line in lines} for name, lines in extras.items()}
    bare = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}
    others = set().union(*(listed[name] for name in listed if name not in ("site", "test"))) - bare - listed.get(extra, set())
    refused = {MODULE.get(name, name.replace("-", "_")) for name in others}
    code = f"import sys; sys.modules |= dict.fromkeys({refused!r}); import {modules}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_the_completion_of_a_shell_has_commands_and_options():
    done = run("--print-completion", "bash")
    assert done.returncode == 0 and "measure" in done.stdout and "--similarity" in done.stdout


@pytest.mark.slow
def test_a_type_checker_knows_the_public_names(tmp_path):
    pytest.importorskip("mypy")
    assert (ROOT / "src/raretokens/py.typed").exists()
    (tmp_path / "user.py").write_text(USER)
    command = [
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--ignore-missing-imports",
        "--cache-dir",
        str(tmp_path),
    ]
    files = [str(tmp_path / "user.py"), *(str(ROOT / f"src/raretokens/{name}.py") for name in ("public", "__init__"))]
    environment = {"MYPYPATH": str(ROOT / "src"), "PATH": ""}
    done = subprocess.run(
        [sys.executable, *command, *files], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1 and "user.py:6" in errors[0], done.stdout + done.stderr
