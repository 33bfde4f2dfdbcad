"""The code that a stage runs, as a fingerprint of each file: without comments, docstrings and blank lines.

So an edit that cannot change an answer makes no stage run again, whatever file it is in.
"""

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
DIGITS = 12  # of a fingerprint


@cache
def fingerprints(roots: tuple[Path, ...], data: tuple[Path, ...] = ()) -> dict[str, str]:
    """File, seen from the package -> fingerprint, of the roots and of all that they import of the package.

    data: files and folders, of which all that is no code is taken as it is.
    """
    code = {_name(path): mark for path in closure(roots) if (mark := _of_code(path))}
    files = [path for place in data for path in ([place] if place.is_file() else place.rglob("*")) if _is_data(path)]
    raw = {_name(path): _short(path.read_bytes().decode("utf-8", "replace")) for path in files}
    return dict(sorted((code | raw).items()))


def _is_data(path: Path) -> bool:
    return path.is_file() and path.suffix not in (".py", ".pyc")


@cache
def _of_code(path: Path) -> str:
    """Empty where the file does nothing."""
    source = stripped(path.read_text(encoding="utf-8"))
    return source and _short(source)


@cache
def of_function(file: Path, name: str) -> tuple[str, tuple[Path, ...]]:
    """Fingerprint of a function at the top of a file, and the files that it imports."""
    source = file.read_text(encoding="utf-8")
    node = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name)
    return _short(stripped(ast.get_source_segment(source, node) or "")), tuple(sorted(_imported(node)))


def module(name: str) -> Path:
    """File of a module of the package: raretokens.loss.facts."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def imports(file: Path) -> frozenset[Path]:
    """Files of the package that a file imports, also inside functions; what only a type checker sees is left out."""
    return frozenset(_imported(ast.parse(file.read_text(encoding="utf-8"))))


def closure(roots: Iterable[Path]) -> set[Path]:
    """The roots, what they import, and so on; with the packages that Python runs on the way."""
    seen: set[Path] = set()
    waiting = list(roots)
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += [*imports(path), *_packages(path)]
    return seen


def stripped(source: str) -> str:
    """Source without comments, docstrings, blank lines and blanks at the ends of lines."""
    lines = [[*line] for line in source.split("\n")]
    for first, last in (*_comments(source), *_docstrings(source)):
        _blank(lines, first, last)
    return "\n".join(line for line in ("".join(line).rstrip() for line in lines) if line)


def _imported(tree: ast.AST) -> Iterator[Path]:
    for node in _run(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            if name.split(".")[0] == PACKAGE.name and (path := module(name)).is_file():
                yield path


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that Python may run."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING"):
            yield from _run(child)


@cache
def _packages(path: Path) -> list[Path]:
    inner = path.relative_to(PACKAGE.parent).parents
    return [file for parent in inner if (file := PACKAGE.parent / parent / "__init__.py").is_file() and file != path]


def _comments(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start, token.end


def _docstrings(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            text = node.body[0].value
            # Columns of the syntax tree count bytes.
            ends = [len(lines[row - 1].encode()[:column].decode()) for row, column in _ends(text)]
            yield (text.lineno, ends[0]), (text.end_lineno or text.lineno, ends[1])


def _ends(node: ast.expr) -> list[tuple[int, int]]:
    return [(node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)]


def _blank(lines: list[list[str]], first: tuple[int, int], last: tuple[int, int]) -> None:
    for row in range(first[0], last[0] + 1):
        start = first[1] if row == first[0] else 0
        end = last[1] if row == last[0] else len(lines[row - 1])
        lines[row - 1][start:end] = [" "] * (end - start)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()
