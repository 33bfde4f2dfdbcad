"""Names that changed since a scale was verified, so that `adopt` recognises equal content under another name.

The tables are empty unless names changed. After a renaming, fill them, adopt every scale, and empty them again.
"""

import json
from pathlib import PurePath
from typing import Any

# Former key of a job -> present key. "training.updates" applies only inside `training` and takes precedence over "updates".
KEYS: dict[str, str] = {}
# Former key of a score file, or column of a CSV or TSV file -> present name.
COLUMNS: dict[str, str] = {}
# Former stage -> present stage, as in dvc.lock before the @.
STAGES: dict[str, str] = {}
# Part of a former command in dvc.lock -> present part, such as {"' probe '": "' predict lm '"}.
COMMANDS: dict[str, str] = {}
# Former prefix of a path below the folder of a scale -> present prefix. The longest matching prefix applies.
PATHS: dict[str, str] = {}

HASHES = ("parameters_hash",)  # keys whose values are parameter hashes, which change when a parameter is renamed


def job(tree: Any) -> Any:
    """Translate the parameters of a former job to present names."""
    return _renamed(tree, KEYS)


def without_hashes(tree: Any) -> Any:
    """Remove parameter hashes if keys changed. The parameters themselves are still compared."""
    if not KEYS:
        return tree
    if isinstance(tree, dict):
        return {key: without_hashes(value) for key, value in tree.items() if key not in HASHES}
    return [without_hashes(value) for value in tree] if isinstance(tree, list) else tree


def former(key: str) -> set[str]:
    """Return the present name and all former names of a job key."""
    return {key, *(old.rpartition(".")[2] for old, new in KEYS.items() if new == key)}


def former_key(key: str) -> str:
    """Return the former name of a present key."""
    return next((old.rpartition(".")[2] for old, new in KEYS.items() if new == key), key)


def stage(name: str) -> str:
    """Translate the name of a stage, kind@key, to its present name."""
    kind, at, key = name.partition("@")
    return STAGES.get(kind, kind) + at + key


def command(text: str) -> str:
    """Translate the command of a stage to the present command."""
    for old, new in COMMANDS.items():
        text = text.replace(old, new, 1)
    return text


def path(name: str) -> str:
    """Translate a path below the folder of a scale to the present path."""
    return _with_prefix(name, PATHS)


def former_path(name: str) -> str:
    """Return the former path of a present path."""
    return _with_prefix(name, {new: old for old, new in PATHS.items()})


def _with_prefix(name: str, prefixes: dict[str, str]) -> str:
    start = max((prefix for prefix in prefixes if name.startswith(prefix)), key=len, default="")
    return prefixes.get(start, "") + name.removeprefix(start)


def same_content(name: str, old: bytes, new: bytes) -> bool:
    """Return whether two files have equal bytes, or equal values as text after translating names, if any name changed."""
    if old == new:
        return True
    if not (KEYS or COLUMNS):
        return False
    try:
        if PurePath(name).suffix == ".json":
            then, now = (json.dumps(tree, sort_keys=True) for tree in trees(old, new))
            return then == now
        return present(name, old) == new
    except ValueError:  # not JSON, or not UTF-8
        return False


def trees(old: bytes, new: bytes) -> tuple[Any, Any]:
    """Parse a former and a present JSON file, under present names and without hashes if keys changed."""
    return without_hashes(_renamed(_parsed(old), COLUMNS)), without_hashes(_parsed(new))


def present(name: str, content: bytes) -> bytes:
    """Translate a former JSON, CSV or TSV file to present names. Other kinds of files are returned unchanged."""
    kind = PurePath(name).suffix
    if kind == ".json":
        tree = json.loads(content)
        renamed = _renamed(tree, COLUMNS)
        return content if renamed == tree else (json.dumps(renamed, indent=1) + "\n").encode()
    if kind not in (".csv", ".tsv"):
        return content
    separator = "\t" if kind == ".tsv" else ","
    header, newline, rows = content.partition(b"\n")
    return separator.join(map(_present_column, header.decode().split(separator))).encode() + newline + rows


def _present_column(name: str) -> str:
    """Translate the name of a column, which is a key or `metric.group`."""
    first, dot, rest = name.partition(".")
    return COLUMNS.get(name) or COLUMNS.get(first, first) + dot + rest


def _parsed(text: bytes) -> Any:
    """Parse JSON with floats as ("float", digits), so that their digits are compared and a string differs from a number."""
    return json.loads(text, parse_float=lambda digits: ("float", digits))


def _renamed(tree: Any, table: dict[str, str], parent: str = "") -> Any:
    if isinstance(tree, list):
        return [_renamed(value, table, parent) for value in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        table.get(f"{parent}.{key}", table.get(key, key)): _renamed(value, table, key) for key, value in tree.items()
    }
