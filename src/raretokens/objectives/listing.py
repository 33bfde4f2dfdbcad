"""What a person can choose from."""

import ast
from typing import Any, NamedTuple

from raretokens.objectives.registry import FOLDER, known


class Choice(NamedTuple):
    """An objective."""

    summary: str  # first sentence of its file
    defaults: dict[str, Any]
    allowed: dict[str, str]  # option -> in words


class Choices(dict[str, Choice]):
    """Name -> objective; shown as a list for people."""

    def __repr__(self) -> str:
        lines = []
        for name, choice in self.items():
            lines.append(f"{name}: {choice.summary}")
            lines += [f"    {key}={choice.defaults[key]!r}  ({allowed})" for key, allowed in choice.allowed.items()]
        return "\n".join(lines)


def objectives() -> Choices:
    """All objectives that `build` knows, by name: what each is, its options, their defaults and what is allowed."""
    return Choices(
        (name, Choice(_summary(one.module), one.defaults, {key: option.allowed for key, option in one.options.items()}))
        for name, one in known().items()
    )


def _summary(module: str) -> str:
    text = ast.get_docstring(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())
