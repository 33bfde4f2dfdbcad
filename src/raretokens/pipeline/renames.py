"""Names that changed since a scale was verified, so that `adopt` compares what is the same under another name.

All tables are empty where nothing was renamed. Fill them, adopt every scale, and empty them again.
"""

import json
from pathlib import PurePath
from typing import Any

# Former key of a job -> present key. "training.updates" is that key inside `training` alone; it goes before "updates".
KEYS: dict[str, str] = {}
# Key (present name) -> former value -> present value, of values of jobs that are names: {"architecture": {"cnn": "conv"}}.
VALUES: dict[str, dict[str, str]] = {}
# Former key of a score file or column of a CSV or TSV file -> present one.
COLUMNS: dict[str, str] = {}
# First item of a pair in a list of a score file -> present one.
PAIRS: dict[str, str] = {}
# Part of the name of a tensor in a saved state, between dots -> present one. Weights and snapshots keep their names.
STATE: dict[str, str] = {}
# Former stage -> present stage, as dvc.lock names it before an @.
STAGES: dict[str, str] = {}
# Former start of a path below the folder of a scale -> present start; the longest that fits counts.
PATHS: dict[str, str] = {}
# Former end of a path -> present end, such as {".drawn.csv": ".bootstrap.csv"}.
ENDINGS: dict[str, str] = {}
# Part of a former command in dvc.lock -> present part, such as {"' probe '": "' predict lm '"}.
COMMANDS: dict[str, str] = {}
# Ends of the paths of outputs that no stage writes any more.
DROPPED: tuple[str, ...] = ()
# Present keys of jobs that former jobs do not have, and that change no value of an output.
ADDED: tuple[str, ...] = ()
# Former keys of jobs that present jobs do not have, and that changed no value of an output.
REMOVED: tuple[str, ...] = ()

HASHES = ("parameters_hash",)  # keys of hashes of parameters; the hashes change with the names of the keys


def job(tree: Any, place: str = "") -> Any:
    """Parameters of a former job, in present names."""
    present = _renamed(tree, KEYS, place)
    return {key: value for key, value in present.items() if key not in REMOVED} if isinstance(present, dict) else present


def without_hashes(tree: Any) -> Any:
    """Parameters without hashes of them, where keys were renamed: the parameters themselves are compared."""
    if not (KEYS or VALUES):
        return tree
    if isinstance(tree, dict):
        return {key: without_hashes(value) for key, value in tree.items() if key not in HASHES}
    return [without_hashes(value) for value in tree] if isinstance(tree, list) else tree


def without_added(tree: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a present job without those that the former one could not have."""
    return {key: value for key, value in tree.items() if key in old or key not in ADDED}


def former(key: str) -> set[str]:
    """All names that a key of a job has or had."""
    return {key, *(old.rpartition(".")[2] for old, new in KEYS.items() if new == key)}


def stage(name: str) -> str:
    """Present name of a stage: kind@key."""
    kind, at, key = name.partition("@")
    return STAGES.get(kind, kind) + at + key


def path(name: str) -> str:
    """Present path of a file or folder below the folder of a scale."""
    fitting = [start for start in PATHS if name.startswith(start)]
    start = max(fitting, key=len, default="")
    name = PATHS[start] + name[len(start) :] if start else name
    end = next((end for end in ENDINGS if name.endswith(end)), "")
    return name.removesuffix(end) + ENDINGS[end] if end else name


def state(tensors: dict[str, str]) -> dict[str, str]:
    """Content of a saved state, in present names."""
    return {".".join(STATE.get(part, part) for part in name.split(".")): value for name, value in tensors.items()}


def former_key(key: str) -> str:
    """Former name of a present key."""
    return next((old.rpartition(".")[2] for old, new in KEYS.items() if new == key), key)


def former_path(name: str) -> str:
    """Former path of a present one."""
    end = next((end for end in ENDINGS.values() if name.endswith(end)), "")
    name = name.removesuffix(end) + next(old for old, new in ENDINGS.items() if new == end) if end else name
    starts = [(new, old) for old, new in PATHS.items() if name.startswith(new)]
    new, old = max(starts, default=("", ""), key=lambda start: len(start[0]))
    return old + name.removeprefix(new)


def command(text: str) -> str:
    """Present command of a stage."""
    for old, new in COMMANDS.items():
        text = text.replace(old, new, 1)
    return text


def is_dropped(name: str) -> bool:
    return name.endswith(DROPPED)


def same_content(name: str, old: bytes, new: bytes) -> bool:
    """Whether two files hold the same: bytes, or keys and columns in present names with every value as it is written."""
    if old == new:
        return True
    if PurePath(name).suffix == ".json":
        return without_hashes(_present_pairs(_renamed(_parsed(old), COLUMNS))) == without_hashes(_parsed(new))
    return present(name, old) == new


def _present_pairs(tree: Any) -> Any:
    """A score file whose lists of pairs have present names."""
    if isinstance(tree, dict):
        for key in ("parameters", "signatures"):
            if isinstance(pairs := tree.get(key), list):
                tree[key] = [[PAIRS.get(name, name), value] for name, value in pairs]
    return tree


def present(name: str, content: bytes) -> bytes:
    """A former JSON, CSV or TSV file in present names; of another kind the file as it is."""
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
    """A column is a key or `metric.group`."""
    first, dot, rest = name.partition(".")
    return COLUMNS.get(name) or COLUMNS.get(first, first) + dot + rest


def _parsed(text: bytes) -> Any:
    """A JSON file whose numbers stay as they are written."""
    return json.loads(text, parse_float=lambda number: ("float", number))


def _renamed(tree: Any, table: dict[str, str], place: str = "") -> Any:
    if isinstance(tree, list):
        return [_renamed(value, table, place) for value in tree]
    if not isinstance(tree, dict):
        return tree
    found = {}
    for key, value in tree.items():
        name = table.get(f"{place}.{key}", table.get(key, key))
        value = _renamed(value, table, key)
        if isinstance(value, str):
            value = VALUES.get(name, {}).get(value, value)
        found[name] = value
    return found
