"""A page of docs, done as it says: its blocks are files of examples/, and each names the file that it is for.

New `<path>` ([`docs/examples/...`](...)):                 the block is that file
Add to `<path>` ([`docs/examples/...`](...)):              YAML whose keys join those of the file
Change `<path>` ([`docs/examples/...`](...)):              lines with + stand after the line above them
"""

import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import yaml

from tiny.world import ROOT

STEP = re.compile(
    r"^(New|Add to|Change) `([^`]+)`[^\n]*?\[`([^`]+)`\]\([^)]*\)[^\n]*:\n\n```\w+\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Step(NamedTuple):
    verb: str
    file: str  # that it is for, seen from the top
    example: str
    block: str


def steps(page: str) -> list[Step]:
    return [Step(*found) for found in STEP.findall((ROOT / f"docs/{page}.md").read_text(encoding="utf-8"))]


def follow(page: str, folder: Path) -> list[str]:
    """Do to a copy of the project what a page says; returns the files that it touches."""
    for step in steps(page):
        example, file = ROOT / step.example, folder / step.file
        assert example.read_text(encoding="utf-8") == step.block, step
        if step.verb == "New":
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(example, file)
        elif step.verb == "Change":
            file.write_text(changed(file.read_text(encoding="utf-8"), step.block), encoding="utf-8")
        else:
            tree = joined(yaml.safe_load(file.read_text(encoding="utf-8")), yaml.safe_load(step.block))
            file.write_text(yaml.safe_dump(tree, sort_keys=False, width=1000), encoding="utf-8")
    return [step.file for step in steps(page)]


def changed(source: str, block: str) -> str:
    lines = source.split("\n")
    for old, new in pairwise(block.split("\n")):
        if new.startswith("+"):
            lines.insert(lines.index(old[1:]) + 1, new[1:])
    return "\n".join(lines)


def joined(old: object, new: object) -> object:
    """Both trees; nothing that is there already changes."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: joined(old[key], value) if key in old else value for key, value in new.items()}
    assert isinstance(old, list) and isinstance(new, list), (old, new)
    return old + new
