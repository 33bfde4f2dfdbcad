"""What a Python file declares at its top, read without running it."""

import ast
from functools import cache
from pathlib import Path
from typing import Any


def literal(file: Path, name: str) -> Any:
    """Value of a literal that the file assigns to `name`; None where it does not."""
    return _literals(file).get(name)


@cache
def _literals(file: Path) -> dict[str, Any]:
    values = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and getattr(node, "value", None) is not None:
                try:
                    values[target.id] = ast.literal_eval(node.value)
                except ValueError:
                    continue
    return values
