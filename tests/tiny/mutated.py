"""Files in which one definition does something else."""

import ast


def mutated(text: str, name: str) -> str:
    """A text with a top-level definition changed: a constant has another value, a function or class one line more."""
    (node,) = (one for one in ast.parse(text).body if name in names(one))
    lines = text.split("\n")
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    before, after = lines[: first - 1], lines[node.end_lineno :]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        node.body.append(ast.parse("added: int = 1").body[0])
    else:
        node.value = ast.Tuple([node.value or ast.Constant(1), ast.Constant(2)], ast.Load())
    return "\n".join([*before, ast.unparse(ast.fix_missing_locations(node)), *after])


def names(node: ast.stmt) -> list[str]:
    """The names that a function, a class or an assignment defines."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else [getattr(one, "id", "") for one in targets]
