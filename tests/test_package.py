"""The package as it is installed: its command explains itself, and its public names have types."""

import subprocess
import sys
from pathlib import Path

import pytest

from raretokens.tools.cli import COMMANDS, build_parser

ROOT = Path(__file__).parents[1]
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
    for name in COMMANDS:
        with pytest.raises(SystemExit) as left:
            made.parse_args([name, "--help"])
        assert left.value.code == 0 and f"raretokens {name}" in capsys.readouterr().out


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
