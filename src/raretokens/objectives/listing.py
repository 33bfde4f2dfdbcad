"""List of all objectives with their options, for `raretokens.objectives()`."""

import ast
from typing import Any, NamedTuple

from raretokens.objectives.registry import FOLDER, known


class Choice(NamedTuple):
    """Summary and options of an objective."""

    summary: str  # first paragraph of the module docstring
    defaults: dict[str, Any]
    allowed: dict[str, str]  # option -> allowed values in words


class Choices(dict[str, Choice]):
    """Dictionary from name to objective, with a readable list as its repr."""

    def __repr__(self) -> str:
        lines = []
        for name, choice in self.items():
            lines.append(f"{name}: {choice.summary}")
            lines += [f"    {key}={choice.defaults[key]!r}  ({allowed})" for key, allowed in choice.allowed.items()]
        return "\n".join(lines)


def objectives() -> Choices:
    """Return all objectives that `build` accepts, by name, with their summaries, options, defaults and allowed values."""
    return Choices(
        (name, Choice(_summary(one.module), one.defaults, {key: option.allowed for key, option in one.options.items()}))
        for name, one in known().items()
    )


def _summary(module: str) -> str:
    text = ast.get_docstring(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())
