"""Names that changed since a scale was verified, so that `adopt` recognises equal content under another name.

The tables are empty unless names changed. After a renaming, fill them, adopt every scale, and empty them again.
"""

import json
from pathlib import PurePath
from typing import Any

# Former key of a job -> present key. "training.updates" applies only inside `training` and takes precedence over "updates".
KEYS: dict[str, str] = {}
# Present key -> former value -> present value, for values of jobs that are names: {"architecture": {"cnn": "conv"}}.
VALUES: dict[str, dict[str, str]] = {}
# Former key of a score file, or column of a CSV or TSV file -> present name.
COLUMNS: dict[str, str] = {}
# Former first item of a pair in a list of a score file -> present first item.
PAIRS: dict[str, str] = {}
# Former component of a dotted tensor name in a saved state -> present component. Weights and snapshots keep their names.
STATE: dict[str, str] = {}
# Former stage -> present stage, as in dvc.lock before the @.
STAGES: dict[str, str] = {}
# Former prefix of a path below the folder of a scale -> present prefix. The longest matching prefix applies.
PATHS: dict[str, str] = {}
# Former suffix of a path -> present suffix, such as {".drawn.csv": ".bootstrap.csv"}.
ENDINGS: dict[str, str] = {}
# Part of a former command in dvc.lock -> present part, such as {"' probe '": "' predict lm '"}.
COMMANDS: dict[str, str] = {}
# Suffixes of the paths of outputs that no stage writes any more.
DROPPED: tuple[str, ...] = ()
# Present keys of jobs that former jobs lack, and that change no value of an output.
ADDED: tuple[str, ...] = ()
# Former keys of jobs that present jobs lack, and that changed no value of an output.
REMOVED: tuple[str, ...] = ()

HASHES = ("parameters_hash",)  # keys whose values are parameter hashes, which change when a parameter is renamed


def job(tree: Any) -> Any:
    """Translate the parameters of a former job to present names."""
    return _renamed(tree, KEYS)


def without_hashes(tree: Any) -> Any:
    """Remove parameter hashes if keys or values changed. The parameters themselves are still compared."""
    if not (KEYS or VALUES or ADDED or REMOVED):
        return tree
    if isinstance(tree, dict):
        return {key: without_hashes(value) for key, value in tree.items() if key not in HASHES}
    return [without_hashes(value) for value in tree] if isinstance(tree, list) else tree


def former(key: str) -> set[str]:
    """Return the present name and all former names of a job key."""
    return {key, *(old.rpartition(".")[2] for old, new in KEYS.items() if new == key)}


def stage(name: str) -> str:
    """Translate the name of a stage, kind@key, to its present name."""
    kind, at, key = name.partition("@")
    return STAGES.get(kind, kind) + at + key


def path(name: str) -> str:
    """Translate a path below the folder of a scale to the present path."""
    fitting = [start for start in PATHS if name.startswith(start)]
    start = max(fitting, key=len, default="")
    name = PATHS[start] + name[len(start) :] if start else name
    end = next((end for end in ENDINGS if name.endswith(end)), "")
    return name.removesuffix(end) + ENDINGS[end] if end else name


def state(tensors: dict[str, str]) -> dict[str, str]:
    """Translate the tensor names of a saved state to present names."""
    return {".".join(STATE.get(part, part) for part in name.split(".")): value for name, value in tensors.items()}


def former_key(key: str) -> str:
    """Return the former name of a present key."""
    return next((old.rpartition(".")[2] for old, new in KEYS.items() if new == key), key)


def former_path(name: str) -> str:
    """Return the former path of a present path."""
    end = next((end for end in ENDINGS.values() if name.endswith(end)), "")
    name = name.removesuffix(end) + next(old for old, new in ENDINGS.items() if new == end) if end else name
    starts = [(new, old) for old, new in PATHS.items() if name.startswith(new)]
    new, old = max(starts, default=("", ""), key=lambda start: len(start[0]))
    return old + name.removeprefix(new)


def command(text: str) -> str:
    """Translate the command of a stage to the present command."""
    for old, new in COMMANDS.items():
        text = text.replace(old, new, 1)
    return text


def is_dropped(name: str) -> bool:
    return name.endswith(DROPPED)


def same_content(name: str, old: bytes, new: bytes) -> bool:
    """Return whether two files have equal bytes, or equal values as text after translating names, if any name changed."""
    if old == new:
        return True
    if not (KEYS or VALUES or COLUMNS or PAIRS or ADDED or REMOVED):
        return False
    try:
        if PurePath(name).suffix == ".json":
            trees = _present_pairs(_renamed(_parsed(old), COLUMNS)), _parsed(new)
            then, now = (json.dumps(without_hashes(tree), sort_keys=True) for tree in trees)
            return then == now
        return present(name, old) == new
    except ValueError:  # not JSON, or not UTF-8
        return False


def _present_pairs(tree: Any) -> Any:
    """Translate the names in lists of pairs of a score file."""
    if isinstance(tree, dict):
        for key in ("parameters", "signatures"):
            if isinstance(pairs := tree.get(key), list):
                tree[key] = [[PAIRS.get(name, name), value] for name, value in pairs]
    return tree


def present(name: str, content: bytes) -> bytes:
    """Translate a former JSON, CSV or TSV file to present names. Other kinds of files are returned unchanged."""
    kind = PurePath(name).suffix
    if kind == ".json":
        tree = json.loads(content)
        renamed = _renamed(tree, COLUMNS)
        return content if renamed == tree else (json.dumps(renamed, indent=1) + "\n").encode()
    return _present_header(content, "\t" if kind == ".tsv" else ",") if kind in (".csv", ".tsv") else content


def _present_header(table: bytes, separator: str) -> bytes:
    header, newline, rows = table.partition(b"\n")
    names = header.decode().split(separator)
    return separator.join(map(_present_column, names)).encode() + newline + rows


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
    found = {}
    for key, value in tree.items():
        name = table.get(f"{parent}.{key}", table.get(key, key))
        value = _renamed(value, table, key)
        if isinstance(value, str):
            value = VALUES.get(name, {}).get(value, value)
        found[name] = value
    return found
