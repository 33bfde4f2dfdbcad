"""Mistakes in files that people write: is each refused in a line that names it, and does no change pass unnoticed?

A key is misspelt or removed, or its value becomes another: of another type, empty, negative, huge, not a number. In
params.yaml, an accepted change must change the job of some stage, and a misspelt key must be refused. In declarations of tables
and claims and in entries of sources, a misspelt key must be refused.
"""

import copy
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from tally import Tally, expect_refusal
from tiny import world

from reproduction.corpora.sources import TABLE, source
from reproduction.papers.load import load_declarations
from reproduction.pipeline import jobs
from reproduction.pipeline.job_file import params_hash
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.surroundings import root

ROOT = root()

VALUES = (
    None,
    "",
    "x",
    "$(touch x)",
    "../x",
    -1,
    0,
    1,
    2.5,
    10**30,
    float("nan"),
    float("inf"),
    -0.5,
    [],
    {},
    [1, "x"],
    True,
)
# Of declarations and of sources; names of tables, rows, splits and so on may be any.
KEYS = {
    "title", "metric", "rows", "columns", "printed", "effect", "expect", "place", "statement", "left", "right", "digits",
    "unit", "kind", "panels", "match", "drift", "bytes", "sha256", "unpack", "package", "licence", "note", "files",
}  # fmt: skip
SILENT_KEYS = {"root", "mirror", "continued"}  # where code and files are; no run here is continued


def paths(tree: Any, above: tuple = ()) -> Iterator[tuple]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield (*above, key)
            yield from paths(value, (*above, key))


def misspelt(word: str) -> str:
    at = random.randrange(len(word))
    return random.choice((word[:at] + word[at + 1 :], word[: at + 1] + word[at:], f"{word}x")) or "x"


def mutated(tree: dict, kind: str) -> tuple[dict, tuple]:
    tree = copy.deepcopy(tree)
    place = random.choice([*paths(tree)])
    node = tree
    for key in place[:-1]:
        node = node[key]
    last = place[-1]
    if kind == "misspelt":
        new = misspelt(str(last))
        items = [(new if key == last else key, value) for key, value in node.items()]
        node.clear()
        node.update(items)
    elif kind == "removed":
        del node[last]
    else:
        node[last] = random.choice([value for value in VALUES if value != node[last]])
    return tree, place


def used() -> dict:
    """The tests' small parameters, less what none of their runs uses."""
    tree, whole = world.parameters(), yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    tree["runs"]["nmt"]["base-agg"] = whole["runs"]["nmt"]["base-agg"]
    del tree["nmt"]["models"]["big"]
    return {key: value for key, value in tree.items() if key not in ("recurrent", "skipgram", "classify", "images")}


def params(tally: Tally, rounds: int) -> None:
    tree = used()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "params.yaml"
        before = _hashes(tree, path)
        for number in range(rounds):
            kind = ("misspelt", "removed", "value")[number % 3]
            changed, place = mutated(tree, kind)
            name = ".".join(map(str, place))
            if changed == tree:
                continue

            def accepted(changed: dict = changed, name: str = name, kind: str = kind) -> str | None:
                if _hashes(changed, path) != before or kind == "removed":  # which may have been the default
                    return None
                if name in SILENT_KEYS or name.startswith("own."):
                    return None
                return "accepted, but no job changes"

            expect_refusal(tally, f"{kind} {name}", f"{path}: ", accepted)


def _hashes(tree: dict, path: Path) -> dict:
    path.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    return {(stage, name): params_hash([job]) for stage, name, job in jobs.all_jobs(load(path))}


def declarations(tally: Tally, rounds: int) -> None:
    """Tables, claims, figures and metrics of the papers."""
    files = [path.relative_to(ROOT / "data/paper") for path in sorted((ROOT / "data/paper").rglob("*.yaml"))]
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "data/paper"
        shutil.copytree(ROOT / "data/paper", copied)
        shutil.copy(ROOT / "params.yaml", folder)
        for scale in ("small", "paper"):
            (Path(folder) / "scales" / scale).mkdir(parents=True)
            shutil.copy(ROOT / "scales" / scale / "params.yaml", Path(folder) / "scales" / scale)
        for _ in range(rounds):
            file = random.choice(files)
            text = (copied / file).read_text(encoding="utf-8")
            _in_file(tally, copied / file, text, lambda: load_declarations(copied))


def sources(tally: Tally, rounds: int) -> None:
    files = sorted(TABLE.glob("*.yaml"))
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            file = random.choice(files)
            _in_file(tally, Path(folder) / file.name, file.read_text(encoding="utf-8"),
                     lambda file=file, folder=folder: source(file.stem, Path(folder)))  # fmt: skip


def _in_file(tally: Tally, path: Path, text: str, read: Callable[[], object]) -> None:
    lines = text.split("\n")
    places = [at for at, line in enumerate(lines) if _key(line) in KEYS]
    if not places:
        return
    at = random.choice(places)
    word = _key(lines[at])
    wrong = [*lines[:at], lines[at].replace(f"{word}:", f"{misspelt(word)}zz:", 1), *lines[at + 1 :]]
    path.write_text("\n".join(wrong), encoding="utf-8")
    expect_refusal(tally, f"{path.name}: {lines[at].strip()[:80]}", "", lambda: _is_accepted(read))
    path.write_text(text, encoding="utf-8")


def _key(line: str) -> str:
    return line.lstrip(" -").partition(":")[0]


def _is_accepted(read: Callable[[], object]) -> str:
    read()
    return "a misspelt key is accepted"


TESTS = {"params": params, "declarations": declarations, "sources": sources}
