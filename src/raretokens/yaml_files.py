"""Files in YAML that people write, read and checked: every mistake is one line with file, key, value and what is allowed."""

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from raretokens.errors import UserError
from raretokens.schema import UNKNOWN, renamed, unknown_key


class Rules:
    """YAML 1.1, with the floats of YAML 1.2, such as the 5e-05 that DVC writes; a duplicate key is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := [key for key in keys if keys.count(key) > 1 and key != "<<"]:
            raise yaml.constructor.ConstructorError(None, None, f"{twice[0]!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


class Loader(Rules, yaml.SafeLoader):
    """The loader whose messages people read."""


class FastLoader(Rules, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """The same by libyaml where PyYAML was built with it: ten times as fast."""


FLOAT = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$")
for _loader in (Loader, FastLoader):
    _loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))


def read_yaml(path: Path) -> Any:
    """The tree of a YAML file. Raises UserError where there is no such file, or it is not YAML."""
    try:
        return parsed_yaml(path.read_bytes(), path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None


def parsed_yaml(text: bytes, place: object) -> Any:
    """The tree of a text in YAML; place: where it is from. Raises UserError where it is not YAML, or not UTF-8."""
    try:
        return _load(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{place}: not UTF-8 at byte {error.start}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{place}: not YAML: {' '.join(str(error).split())}") from None


def _load(text: str) -> Any:
    """Load with libyaml; a text that it refuses is read again by PyYAML's own parser, which alone words the error."""
    try:
        return yaml.load(text, FastLoader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError):
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader


def checked(kind: Any, tree: Any, place: object, joint: str = ": ") -> Any:
    """The tree as an object of that kind (a Section, or a container of them); place: the file that it is from.

    joint: what stands between the place and a key; a dot where the place is a key itself.

    Raises UserError with a line for each mistake.
    """
    try:
        return TypeAdapter(kind).validate_python(tree)
    except ValidationError as error:
        raise UserError("\n".join(f"{place}{joint}{line}" for line in _lines(error, tree))) from None


def _lines(error: ValidationError, tree: Any) -> list[str]:
    """One line a mistake; the alternatives of a union, which each complain by themselves, are put together."""
    mistakes: dict[str, list[dict]] = {}
    for item in error.errors(include_url=False):
        mistakes.setdefault(".".join(_place(tree, item)), []).append(dict(item))
    return [line for key, items in mistakes.items() for line in _told(key, items)]


def _place(tree: Any, item: dict) -> list[str]:
    """Keys from the top of the file to the mistake; pydantic's names of a union's members are not in the file."""
    found, node = [], tree
    for part in item["loc"]:
        if isinstance(node, dict) and part in node or isinstance(node, list) and isinstance(part, int):
            found.append(str(part))
            node = node[part]
    return [*found, str(item["loc"][-1])] if item["type"] == "missing" else found


def _told(key: str, items: list[dict]) -> list[str]:
    first = items[0]
    if first["type"] == UNKNOWN:
        unknown, known = first["ctx"]["unknown"], first["ctx"]["known"]
        return [unknown_key(key, str(name), value, known) for name, value in unknown.items()]
    if first["type"] == "missing":
        section, _, name = key.rpartition(".")
        former = [old for old in first["input"] if renamed(section, str(old)) == name]
        return [unknown_key(section, old, first["input"][old], []) for old in former] or [f"{key}: missing; it is required"]
    return [f"{key}: {first['input']!r} is not allowed: {', or '.join(item['msg'].lower() for item in items)}"]
