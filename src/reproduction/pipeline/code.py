"""Hashes of the code that a stage runs, one for each file of both packages that it imports.

The search starts at the function of the stage in stages.py, at definitions in the module of its task, and at the modules that its
job names. Of the files of these definitions, only they count, and what they use there. Of other files everything counts: those
that counted code imports, at its top, inside a function or as a package. Imports under `if TYPE_CHECKING`, comments, docstrings
and formatting do not count, so editing them does not run a stage again.
"""

import ast
import hashlib
import symtable
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2]
PACKAGES = ("raretokens", "reproduction")  # the library, and what reproduces the papers with it
DIGITS = 12  # hexadecimal digits of a hash


class Code:
    """Code of the packages in a folder, in which each file is read once."""

    def __init__(self, source: Path = SOURCE) -> None:
        self.source = source
        self._trees: dict[Path, ast.Module] = {}
        self._files: dict[Path, tuple[str, set[Path]]] = {}  # hash of a file, and the files that it needs
        self._roots: dict[str, tuple[dict[tuple[Path, int], str], set[Path]]] = {}  # hashes of statements, and files

    @cached_property
    def modules(self) -> dict[str, Path]:
        """Dotted name of a module -> file."""
        files = [path for package in PACKAGES for path in (self.source / package).rglob("*.py")]
        return {".".join(path.relative_to(self.source).with_suffix("").parts).removesuffix(".__init__"): path for path in files}

    def of_files(self, *roots: str) -> dict[str, str]:
        """Hash the code that is reached from the roots, file by file.

        Args:
            roots: a module (`raretokens.objectives.agg`), a definition in a module (`reproduction.tasks.lm:predict`), or a
                function without the top-level imports of its file (`reproduction.pipeline.stages:train()`).

        Returns:
            File, relative to the folder -> hash.
        """
        found, waiting = {}, set[Path]()
        for statements, needed in map(self._of_root, roots):
            found |= statements
            waiting |= needed
        parts = defaultdict(list)
        for (file, _), digest in sorted(found.items()):
            parts[file].append(digest)
        hashes = {file: _hash(own) for file, own in parts.items()}
        for file in self._reached(waiting):
            hashes[file] = self._of_file(file)[0]
        return {file.relative_to(self.source).as_posix(): digest for file, digest in sorted(hashes.items())}

    def of_packages(self, *roots: str) -> dict[str, str]:
        """Hash the code that is reached from the roots, with one hash for each subpackage or top-level module."""
        packages = defaultdict(list)
        for name, digest in self.of_files(*roots).items():
            packages["/".join(name.split("/")[:2]).removesuffix(".py")].append(f"{name} {digest}")
        return {package: _hash(files) for package, files in packages.items()}

    def _of_root(self, root: str) -> tuple[dict[tuple[Path, int], str], set[Path]]:
        """Return file and line -> hash of the statements that a root counts, and the files that are reached from it."""
        if root not in self._roots:  # many stages share roots
            module, _, name = root.partition(":")
            file = self.modules[module]
            nodes = self._used(file, name) if name else []
            hashes = {(file, node.lineno): _hash([canonical(node)]) for node in nodes}
            self._roots[root] = hashes, self._needed(nodes) if name else {file}
        return self._roots[root]

    def _reached(self, waiting: set[Path]) -> set[Path]:
        reached = set[Path]()
        while waiting:
            reached |= waiting
            waiting = set().union(*(self._of_file(file)[1] for file in waiting)) - reached
        return reached

    def _of_file(self, file: Path) -> tuple[str, set[Path]]:
        if file not in self._files:
            if file.suffix == ".py":
                tree = self._tree(file)
                self._files[file] = _hash([canonical(tree)]), self._needed([tree]) | self._data(file, tree)
            else:
                self._files[file] = _hash([file.read_bytes().hex()]), set()
        return self._files[file]

    def _tree(self, file: Path) -> ast.Module:
        if file not in self._trees:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            _Cleaner().visit(tree)
            self._trees[file] = tree
        return self._trees[file]

    def _needed(self, nodes: Iterable[ast.AST]) -> set[Path]:
        """Return the files of the modules that the nodes import, with the packages that they are in."""
        names = {name for node in nodes for one in ast.walk(node) for name in _imported(one)}
        parents = {".".join(parts[: end + 1]) for parts in (name.split(".") for name in names) for end in range(len(parts))}
        return {self.modules[name] for name in parents & self.modules.keys()}

    def _used(self, file: Path, name: str) -> list[ast.stmt]:
        """Return the top-level statements that a definition needs in its file; for `name()`, no imports."""
        statements = [node for node in self._tree(file).body if not (name.endswith("()") and _is_import(node))]
        found, waiting = [], {name.removesuffix("()")}
        while waiting:
            new = [node for node in statements if node not in found and waiting & {*_bound(node)}]
            found += new
            waiting = {used for node in new for used in _global_names(node)}
        return found

    def _data(self, file: Path, tree: ast.Module) -> set[Path]:
        """Return the data files in the folder of code that uses `__file__`, and of packages that it names (templates)."""
        texts = {one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)}
        named = (self.modules[text] for text in texts & self.modules.keys() if "." in text)
        folders = [path.parent for path in named if path.name == "__init__.py"]
        folders += [file.parent] * any(isinstance(one, ast.Name) and one.id == "__file__" for one in ast.walk(tree))
        files = {path for folder in folders for path in folder.rglob("*") if path.suffix not in (".py", ".pyc")}
        return {path for path in files if path.is_file()}


class _Cleaner(ast.NodeTransformer):
    """Removes docstrings and `if TYPE_CHECKING` blocks from a tree."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node

    def visit_If(self, node: ast.If) -> ast.If | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if ast.unparse(node.test).endswith("TYPE_CHECKING") else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef


def canonical(value: Any) -> str:
    """Serialise a syntax tree, independent of source formatting and Python version."""
    if isinstance(value, ast.AST):
        fields = ((name, part) for name, part in ast.iter_fields(value) if name not in ("ctx", "kind", "type_comment"))
        parts = (f"{name}={text}" for name, part in fields if (text := canonical(part)))
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, list):
        return f"[{','.join(canonical(part) or '-' for part in value)}]" if value else ""
    return "" if value is None else repr(value)


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the modules that an import may execute. The packages have no relative imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def _bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a top-level statement binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    else:
        for one in ast.walk(node):
            if isinstance(one, ast.alias):
                yield (one.asname or one.name).partition(".")[0]
            elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                yield one.id


def _global_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a top-level statement may look up at the top level of its file."""
    waiting = [symtable.symtable(ast.unparse(node), "", "exec")]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        is_open = table.get_type() in ("module", "class")  # where a name may be looked up before it is bound
        yield from (symbol.get_name() for symbol in table.get_symbols() if is_open or symbol.is_global())


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
