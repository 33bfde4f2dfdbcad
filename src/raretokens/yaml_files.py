"""Reading and validation of YAML files. Every mistake is one line with file, key, value and allowed values."""

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from raretokens.errors import UserError
from raretokens.schema import UNKNOWN, renamed, unknown_key


class Ambiguous(yaml.YAMLError):
    """A scalar with different values in YAML 1.1 (PyYAML) and YAML 1.2 (DVC)."""

    def __init__(self, node: yaml.ScalarNode, reason: str) -> None:
        super().__init__(reason)
        self.line = node.start_mark.line


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # libyaml, if PyYAML was built with it, is ten times as fast
    """Loader with YAML 1.2 rules, as DVC uses. Duplicate keys and scalars with another value in YAML 1.1 are errors.

    The words yes, no, on and off are strings, because DVC removes their quotes when it rewrites a file.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := [key for key in keys if keys.count(key) > 1 and key != "<<"]:
            raise yaml.constructor.ConstructorError(None, None, f"{twice[0]!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        value = self.construct_scalar(node)
        digits = value.lstrip("-+").replace("_", "")
        if not digits:
            raise Ambiguous(node, f"{value} is no number, but looks like one; put it in quotes")
        if digits[:2] == "0o":
            raise Ambiguous(node, f"{value} is a number in YAML 1.2 and text in 1.1; write decimal digits")
        if re.fullmatch("0[0-9]+", digits) and (digits.strip("01234567") or int(digits) != int(digits, 8)):
            raise Ambiguous(node, f"{value} is octal in YAML 1.1 and decimal in 1.2; write it without the leading zero")
        return self.construct_yaml_int(node)

    def construct_date(self, node: yaml.ScalarNode) -> None:
        raise Ambiguous(node, f"{node.value} is a date to some readers of YAML and text to others; put it in quotes")


CLASS = re.compile(r"valid dictionary or (instance of \w+|object to extract fields from)")  # in messages of pydantic
FLOAT = r"[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
# Tag -> pattern, first characters, and constructor of the scalars whose rules differ between YAML 1.1 and 1.2. The order
# matters: an integer also matches the pattern of floats.
SCALARS = {
    "bool": ("true|True|TRUE|false|False|FALSE", "tTfF", yaml.SafeLoader.construct_yaml_bool),
    "int": ("[-+]?([0-9_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+)", "-+0123456789", Loader.construct_integer),
    "float": (FLOAT, "-+.0123456789", yaml.SafeLoader.construct_yaml_float),
    "timestamp": (r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?", "0123456789", Loader.construct_date),
}
TAG = "tag:yaml.org,2002:"
# Replace the loader's YAML 1.1 rules for scalars, except those for null and the merge key.
Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag.removeprefix(TAG) not in SCALARS]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _name, (_pattern, _first, _construct) in SCALARS.items():
    Loader.add_implicit_resolver(TAG + _name, re.compile(f"({_pattern})$"), list(_first))
    Loader.add_constructor(TAG + _name, _construct)


def read_yaml(path: Path) -> Any:
    """Read a YAML file. Raises UserError if the file does not exist or is not YAML."""
    try:
        return parsed_yaml(path.read_bytes(), path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None


def parsed_yaml(text: bytes, place: object) -> Any:
    """Parse YAML. `place` names its origin in error messages. Raises UserError if it is not YAML or not UTF-8."""
    try:
        return yaml.load(text.decode("utf-8"), Loader)  # noqa: S506 - a SafeLoader
    except UnicodeDecodeError as error:
        raise UserError(f"{place}: not UTF-8 at byte {error.start}") from None
    except Ambiguous as error:
        line = text.decode("utf-8").split("\n")[error.line].strip()
        raise UserError(f"{place}: line {error.line + 1}, {line!r}: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{place}: not YAML: {' '.join(str(error).split())}") from None


def checked(kind: Any, tree: Any, place: object, joint: str = ": ") -> Any:
    """Validate a tree as an object of type `kind`, which is a Section or a container of sections.

    Args:
        place: file that the tree is from, for error messages.
        joint: separator of place and key in error messages; a dot if `place` is itself a key.

    Raises:
        UserError: with one line for each mistake.
    """
    try:
        return TypeAdapter(kind).validate_python(tree)
    except ValidationError as error:
        raise UserError("\n".join(f"{place}{joint}{line}" for line in _lines(error, tree))) from None


def _lines(error: ValidationError, tree: Any) -> list[str]:
    """Return one line for each mistake. The errors of all alternatives of a union are joined into one line."""
    mistakes: dict[str, list[dict]] = {}
    for item in error.errors(include_url=False):
        mistakes.setdefault(".".join(_place(tree, item)), []).append(dict(item))
    return [line for key, items in mistakes.items() for line in _messages(key, items)]


def _place(tree: Any, item: dict) -> list[str]:
    """Return the keys from the top of the file to the mistake, without pydantic's names of union members."""
    found, node = [], tree
    for part in item["loc"]:
        if isinstance(node, dict) and part in node or isinstance(node, list) and isinstance(part, int):
            found.append(str(part))
            node = node[part]
    return [*found, str(item["loc"][-1])] if item["type"] == "missing" else found


def _messages(key: str, items: list[dict]) -> list[str]:
    first = items[0]
    if first["type"] == UNKNOWN:
        unknown, known = first["ctx"]["unknown"], first["ctx"]["known"]
        return [unknown_key(key, str(name), value, known) for name, value in unknown.items()]
    if first["type"] == "missing":
        section, _, name = key.rpartition(".")
        former = [old for old in first["input"] if renamed(section, str(old)) == name]
        return [unknown_key(section, old, first["input"][old], []) for old in former] or [f"{key}: missing; it is required"]
    place = f"{key}: " if key else ""  # none where the whole file is wrong
    allowed = ", or ".join(CLASS.sub("section with keys", item["msg"]).lower() for item in items)
    return [f"{place}{first['input']!r} is not allowed: {allowed}"]
