"""stages: the pipeline on one screen, where `dvc dag` draws every run."""

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raretokens.paths import PARAMETERS
from raretokens.yaml_files import read_yaml

MANY = 6  # files of one stage
TOLD = ("stage", "how many", "reads", "writes")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    commands.add_parser("stages", help="the stages of dvc.yaml, a line for all runs of each").set_defaults(act=show)


def show(_: argparse.Namespace) -> None:
    lines = [TOLD, *stages(read_yaml(Path("dvc.yaml"))["stages"], read_yaml(PARAMETERS))]
    widths = [max(len(line[place]) for line in lines) for place in range(len(TOLD))]
    for line in lines:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())


def stages(declared: dict[str, Any], parameters: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Name, number of runs, what they read and what they write, of the stages that this scale has runs of."""
    for name, stage in declared.items():
        each = _each(stage["foreach"], parameters) if "foreach" in stage else [""]
        if each:
            body = stage.get("do", stage)
            reads = [path for path in body["deps"] if not path.startswith(("data/jobs/", "${root}"))]
            writes = [*body.get("outs", []), *body.get("metrics", [])]
            yield name, str(len(each)), _together(reads), _together(writes)


def _each(of: str, parameters: dict[str, Any]) -> Any:
    """What `foreach: ${runs.lm}` goes over; nothing where this scale has no such key."""
    found: Any = parameters
    for key in of.removeprefix("${").removesuffix("}").split("."):
        found = (found or {}).get(key)
    return found or []


def _together(paths: list[Any]) -> str:
    """Folders and files without the names of runs; where there are many, the folder that they are all in."""
    plain = (path if isinstance(path, str) else next(iter(path)) for path in paths)
    folders = dict.fromkeys(re.sub(r"/?\$\{(key|item[.\w]*)\}.*", "", path) or "own files" for path in plain)
    return ", ".join(folders) if len(folders) < MANY else os.path.commonpath(folders)
