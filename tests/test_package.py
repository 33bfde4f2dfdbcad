"""The package as it is installed: its command explains itself, and its public names have types."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from raretokens.cli import AUDIENCES, COMMANDS, INSTALL, build_parser

ROOT = Path(__file__).parents[1]
INSTALLED = {"yaml": "pyyaml", "thot": "sil-thot"}  # module -> package
USER = """
import torch
from raretokens import Facts, Objective, build, facts
known: Facts = facts(torch.ones(8, dtype=torch.int64), width=4, steps_per_epoch=2)
objective: Objective = build("agg", known)
wrong: int = build("agg", known)
"""


def test_every_command_explains_itself(capsys):
    made = build_parser(list(COMMANDS))
    with pytest.raises(SystemExit) as left:
        made.parse_args(["--help"])
    assert left.value.code == 0 and all(f"\n    {name} " in made.format_help() for name in COMMANDS)
    assert all(f"\n  {audience}:\n" in made.format_help() for audience in AUDIENCES)
    with pytest.raises(SystemExit) as left:
        made.parse_args(["--version"])
    assert left.value.code == 0 and "\nraretokens " in capsys.readouterr().out
    for name in COMMANDS:
        with pytest.raises(SystemExit) as left:
            made.parse_args([name, "--help"])
        assert left.value.code == 0 and f"raretokens {name}" in capsys.readouterr().out


def run(*words: str, refused: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that does not find the refused libraries."""
    code = f"import sys\nsys.modules |= dict.fromkeys({refused!r})\nfrom raretokens.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
    )


@pytest.mark.parametrize(("command", "library", "install"), [
    ("claims", "pydantic", "pip install pandas pydantic"),
    ("plan", "pydantic", "pip install '.[pipeline]' in the clone"),
    ("measure", "tokenizers", "pip install tokenizers"),
    ("--print-completion", "shtab", "pip install shtab"),
])  # fmt: skip
def test_a_missing_library_costs_one_line_with_the_packages_to_install(command, library, install):
    done = run(command, "bash", "bash", refused=(library,))
    assert done.returncode == 1 and done.stderr.startswith(f"error: {library} is not installed: {install}")


def test_the_packages_for_claims_are_all_that_it_imports():
    code = "import sys; import raretokens.claims.command; print(*{name.split('.')[0] for name in sys.modules})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    every = {re.match(r"[\w-]+", line)[0] for line in (*project["dependencies"], *project["optional-dependencies"]["pipeline"])}
    needed = {INSTALLED.get(name, name) for name in done.stdout.split()} & every
    assert needed <= {*INSTALL["claims"].split(), *(re.match(r"[\w-]+", line)[0] for line in project["dependencies"])}


def test_the_completion_of_a_shell_has_commands_and_options():
    done = run("--print-completion", "bash")
    assert done.returncode == 0 and "measure" in done.stdout and "--similarity" in done.stdout


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
