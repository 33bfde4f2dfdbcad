"""Files in which one definition does something else."""

import ast

from reproduction.pipeline.definitions import DEFINITION, Statement


def mutated(text: str, statement: Statement) -> str:
    """A text with one of its statements changed: a constant has another value, a function or class one line more."""
    lines = text.split("\n")
    before, after = lines[: statement.lines.start - 1], lines[statement.lines.stop - 1 :]
    node = ast.parse("\n".join(lines[statement.lines.start - 1 : statement.lines.stop - 1])).body[0]
    if isinstance(node, DEFINITION):
        node.body.append(ast.parse("added: int = 1").body[0])
    else:
        node.value = ast.Tuple([node.value or ast.Constant(1), ast.Constant(2)], ast.Load())
    return "\n".join([*before, ast.unparse(ast.fix_missing_locations(node)), *after])
