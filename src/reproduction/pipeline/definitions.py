"""Top-level statements of a Python file: names that each binds, names that it needs, and whether it has effects on import.

Where the syntax is not conclusive, the analysis overestimates: names in annotations, default values and all branches count as
needed. Only code under `if TYPE_CHECKING` is ignored.
"""

import ast
import builtins
import hashlib
import symtable
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import Any, NamedTuple

PACKAGES = ("raretokens", "reproduction")  # the library, and what reproduces the papers with it
DIGITS = 12  # hexadecimal digits of a hash
Chain = tuple[str, ...]  # a dotted name: ("module", "attribute")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITION = (*FUNCTION, ast.ClassDef)

# Functions that a top-level statement may call without an effect besides binding a value. A statement with any other call has
# effects, so it counts wherever the file is imported.
ACTING = {"__import__", "delattr", "eval", "exec", "globals", "input", "open", "print", "setattr"}
HARMLESS = set(dir(builtins)) - ACTING | {
    "AfterValidator", "BeforeValidator", "ConfigDict", "DataFrame", "Discriminator", "Field", "MappingProxyType", "NewType",
    "Path", "PrivateAttr", "Tag", "TypeVar", "abstractmethod", "cache", "cached_property", "compile", "contextmanager",
    "dataclass", "disable", "dtype", "field", "field_validator", "final", "get_logger", "inference_mode", "items", "joinpath",
    "keys", "lru_cache", "model_validator", "namedtuple", "no_grad", "overload", "override", "runtime_checkable", "setter",
    "singledispatch", "split", "total_ordering", "values", "with_name", "with_suffix", "wraps",
}  # fmt: skip


class Import(NamedTuple):
    """`import module` or `from module import name`."""

    bound: str  # name that the import binds in the importing file
    module: str
    name: str  # empty for `import module`
    runs: frozenset[str]  # modules that the import may execute


class Statement:
    """A top-level statement. An import of several names becomes one statement per name."""

    def __init__(self, node: ast.stmt, source: list[str], package: str, what: Import | None = None) -> None:
        self.node, self.nodes = node, list(ast.walk(node))
        self.is_import = what is not None
        self.imports = [what] if what else list(_imports(self.nodes, package))
        self.binds = {what.bound} if what else set(_bound(self.nodes, self.imports))
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        self.lines = range(first, (node.end_lineno or first) + 1)
        self._source = "\n".join(source[first - 1 : node.end_lineno])
        self.acts = False  # whether it has effects when the file is imported; statements() sets it

    @property
    def is_definition(self) -> bool:
        return isinstance(self.node, DEFINITION) or _is_constant(self.node)

    @cached_property
    def digest(self) -> str:
        """Hash of the syntax tree, which ignores comments, docstrings and formatting."""
        what = self.imports[0] if self.is_import else None
        text = f"{what.bound} = {what.module}:{what.name}" if what else _canonical(self.node)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]

    @cached_property
    def uses(self) -> set[Chain]:
        """Dotted names that start at a top-level name of the file or at one of `imports`; empty for an import statement."""
        if self.is_import:
            return set()
        known = _global_names(self._source) | {what.bound for what in self.imports}
        return {chain for chain in _chains(self.node) if chain[0] in known} | set(_in_annotations(self.nodes))

    @cached_property
    def modules(self) -> set[str]:
        """Strings in the statement that look like names of modules of PACKAGES."""
        texts = {one.value for one in self.nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)}
        return {text for text in texts if text.startswith(tuple(f"{package}." for package in PACKAGES))}

    @property
    def sees_all(self) -> bool:
        """Whether the statement may look up arbitrary names of its file, through globals() or sys.modules."""
        return any(chain[0] == "globals" or chain[:2] == ("sys", "modules") for chain in self.uses)

    @property
    def looks_for_files(self) -> bool:
        return any(chain[0] == "__file__" for chain in self.uses)


@cache
def statements(text: str, package: str) -> tuple[Statement, ...]:
    """Parse the top-level statements of a file, in order.

    Args:
        text: source code of the file.
        package: dotted name that its relative imports start at.
    """
    tree, lines = ast.parse(text), text.split("\n")
    _Cleaner().visit(tree)
    found = list[Statement]()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += (Statement(node, lines, package, what) for what in _imports([node], package))
        else:
            found.append(Statement(node, lines, package))
    used = {node.id for one in found for node in one.nodes if isinstance(node, ast.Name)}
    # Calling a name of these packages counts as an effect.
    own = {name for one in found if not one.is_import or _is_own(one.imports[0]) for name in one.binds}
    for one in found:
        if one.is_import:  # an unused library is imported for its effects
            one.acts = not one.binds & used and not _is_own(one.imports[0])
        else:
            one.acts = not one.is_definition or any(_acts(called, own) for called in _called_at_once(one.node))
    return tuple(found)


class _Cleaner(ast.NodeTransformer):
    """Removes docstrings and `if TYPE_CHECKING` blocks from a tree."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node

    def visit_If(self, node: ast.If) -> ast.If | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if (_dotted(node.test) or ("",))[-1] == "TYPE_CHECKING" else node


def _canonical(value: Any) -> str:
    """Serialise a syntax tree, independent of source formatting and Python version."""
    if isinstance(value, ast.AST):
        fields = ((name, part) for name, part in ast.iter_fields(value) if name not in ("ctx", "kind", "type_comment"))
        parts = (f"{name}={text}" for name, part in fields if (text := _canonical(part)))
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, list):
        return f"[{','.join(_canonical(part) or '-' for part in value)}]" if value else ""
    return "" if value is None else repr(value)


def _is_constant(node: ast.stmt) -> bool:
    """Return whether a statement only binds names to a value."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    plain = (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.Store)
    return isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and all(
        isinstance(part, plain) for target in targets if target for part in ast.walk(target)
    )


def _bound(nodes: list[ast.AST], imports: list[Import]) -> Iterator[str]:
    """Yield the top-level names that a statement binds in any of its branches."""
    if isinstance(nodes[0], DEFINITION):
        yield nodes[0].name
        return
    yield from (what.bound for what in imports)
    for one in nodes:
        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
            yield one.id
        elif isinstance(one, (*DEFINITION, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and one.name:
            yield one.name


def _imports(nodes: list[Any], package: str) -> Iterator[Import]:
    for one in nodes:
        if isinstance(one, ast.Import):
            for alias in one.names:
                first = alias.name.partition(".")[0]
                stands_for = alias.name if alias.asname else first
                yield Import(alias.asname or first, stands_for, "", frozenset({alias.name}))
        elif isinstance(one, ast.ImportFrom):
            parent = package.rsplit(".", one.level - 1)[0] if one.level else ""
            module = ".".join(filter(None, (parent, one.module)))
            for alias in one.names:
                runs = frozenset({module, f"{module}.{alias.name}"})
                yield Import(alias.asname or alias.name, module, alias.name, runs)


def _is_own(what: Import) -> bool:
    return what.module.partition(".")[0] in PACKAGES


def _dotted(node: ast.AST) -> Chain | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else None


def _chains(node: ast.AST) -> Iterator[Chain]:
    """Yield the longest dotted name at each place, such as ("a", "b", "c") for a.b.c."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if chain := _dotted(one):
            yield chain
        else:
            waiting += ast.iter_child_nodes(one)


def _in_annotations(nodes: list[ast.AST]) -> Iterator[Chain]:
    """Yield the names in annotations that are strings."""
    annotated = (one for one in nodes if isinstance(one, (ast.arg, ast.AnnAssign, *FUNCTION)))
    for one in annotated:
        for annotation in filter(None, (getattr(one, "annotation", None), getattr(one, "returns", None))):
            for text in ast.walk(annotation):
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    try:
                        yield from _chains(ast.parse(text.value, mode="eval"))
                    except SyntaxError:
                        continue


def _global_names(source: str) -> set[str]:
    """Return the names that a statement may look up at the top level of the file."""
    try:
        waiting = [symtable.symtable(source, "", "exec")]
    except SyntaxError:  # indented lines of a branch: any name
        return {chain[0] for chain in _chains(ast.parse(f"if True:\n{source}"))}
    names = set[str]()
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        scope = table.get_type()
        names |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if scope == "module" or symbol.is_global() or (scope == "class" and symbol.is_referenced())
        }
    return names


def _called_at_once(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what importing the file calls: in decorators, default values, values of constants and class bodies."""
    yield from getattr(node, "decorator_list", [])
    parts: Iterable[ast.AST | None] = ast.iter_child_nodes(node)
    if isinstance(node, FUNCTION):
        parts = (*node.decorator_list, node.args, node.returns)
    elif isinstance(node, ast.Lambda):
        parts = (node.args,)
    elif isinstance(node, ast.Call):
        yield node.func
    for part in filter(None, parts):
        yield from _called_at_once(part)


def _acts(called: ast.AST, own: set[str]) -> bool:
    if isinstance(called, ast.Call):  # a decorator with arguments
        called = called.func
    name = getattr(called, "attr", getattr(called, "id", ""))
    return name not in HARMLESS or (isinstance(called, ast.Name) and called.id in own)
