"""Hashes of the code that a stage runs: all definitions in both packages that the stage can reach by name.

The search starts at the function of the stage in stages.py and at the modules that its job names. From a statement it follows
every name in the statement, and the effects of importing the files that define them. A module used as a whole, or `import *`,
includes its entire file. Comments, docstrings and formatting are ignored, so editing them does not run a stage again.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from reproduction.pipeline.definitions import DIGITS, PACKAGES, Chain, Import, Statement, statements

SOURCE = Path(__file__).parents[2]
IMPORTED = -1  # in place of a statement's number: the effects of importing the file
Step = tuple[Path, int]  # file and number of a statement


class Code:
    """Code of the packages in a folder, in which each file is read once."""

    def __init__(self, source: Path = SOURCE) -> None:
        self.source = source
        self._read: dict[Path, tuple[Statement, ...]] = {}
        self._bound: dict[Path, dict[str, list[int]]] = {}
        self._next: dict[Step, frozenset[Step]] = {}
        self._hashes: dict[tuple[str, ...], dict[str, str]] = {}

    @cached_property
    def modules(self) -> dict[str, Path]:
        """Dotted name of a module -> file."""
        files = [path for package in PACKAGES for path in (self.source / package).rglob("*.py")]
        return {".".join(path.relative_to(self.source).with_suffix("").parts).removesuffix(".__init__"): path for path in files}

    def of_files(self, *roots: str) -> dict[str, str]:
        """Hash the code that can be reached from the roots, file by file.

        Args:
            roots: a module (`raretokens.objectives.agg`), a definition (`reproduction.tasks.lm:predict`), or a function without
                the top-level imports of its file (`reproduction.pipeline.stages:train()`).

        Returns:
            File, relative to the folder -> hash of its reachable statements. Data files count where code searches for files.
        """
        if roots not in self._hashes:
            reached = self.reached(*roots)
            code = {path: [self.statements(path)[number].digest for number in sorted(numbers)]
                    for path, numbers in reached.items()}  # fmt: skip
            found = {self._name(path): _hash(digests) for path, digests in code.items() if digests}
            found |= {self._name(path): _hash([path.read_bytes().hex()]) for path in self._data(reached)}
            self._hashes[roots] = dict(sorted(found.items()))
        return self._hashes[roots]

    def of_packages(self, *roots: str) -> dict[str, str]:
        """Hash the code that can be reached from the roots, with one hash for each subpackage or top-level module."""
        packages = defaultdict(list)
        for name, digest in self.of_files(*roots).items():
            packages["/".join(name.split("/")[:2]).removesuffix(".py")].append(f"{name} {digest}")
        return {package: _hash(files) for package, files in packages.items()}

    def reached(self, *roots: str) -> dict[Path, set[int]]:
        """Return file -> numbers of the statements that can be reached from the roots."""
        found = defaultdict[Path, set[int]](set)
        seen, waiting = set[Step](), [step for root in roots for step in self._begin(root)]
        while waiting:
            if (step := waiting.pop()) not in seen:
                seen.add(step)
                found[step[0]] |= {step[1]} - {IMPORTED}
                waiting += self._after(step)
        return found

    def statements(self, file: Path) -> tuple[Statement, ...]:
        if file not in self._read:
            module = ".".join(file.relative_to(self.source).parent.parts)
            self._read[file] = statements(self.text_of(file), module)
        return self._read[file]

    def text_of(self, file: Path) -> str:
        return file.read_text(encoding="utf-8")

    def _begin(self, root: str) -> Iterator[Step]:
        module, _, name = root.partition(":")
        file = self.modules[module]
        if name.endswith("()"):
            for number in self._binding(file, name.removesuffix("()")):
                # Top-level imports of stages.py do not affect results, so no job hashes them.
                self._next[file, number] = frozenset(self._inside(self.statements(file)[number]))
                yield file, number
        elif name:
            yield from self._named(file, (name,))
        else:
            yield from self._whole(file)

    def _after(self, step: Step) -> frozenset[Step]:
        if step not in self._next:
            file, number = step
            after = self._run(file) if number == IMPORTED else self._needed(file, self.statements(file)[number])
            self._next[step] = frozenset(after)
        return self._next[step]

    def _run(self, file: Path) -> Iterator[Step]:
        """Yield what importing a file runs: its parent packages, its imports, and its statements with effects."""
        for parent in file.relative_to(self.source).parents:
            yield from self._files([".".join(parent.parts)])
        for number, statement in enumerate(self.statements(file)):
            if statement.is_import:
                yield from self._running(statement)
            if statement.acts:
                yield file, number

    def _needed(self, file: Path, statement: Statement) -> Iterator[Step]:
        yield file, IMPORTED
        yield from self._inside(statement)
        if statement.is_import:
            return  # the statements that use the name decide what is followed (_named)
        for chain in statement.uses:
            yield from self._named(file, chain)
        for what in statement.imports if not statement.is_definition else ():
            yield from self._imported(what, ())  # bound in a branch: other statements may use it in any way
        if statement.sees_all:
            yield from self._whole(file)

    def _inside(self, statement: Statement) -> Iterator[Step]:
        """Yield what the imports inside a statement reach, and modules whose names occur in it as strings."""
        yield from self._running(statement)
        for chain in statement.uses:
            for what in statement.imports:
                if what.bound == chain[0]:
                    yield from self._imported(what, chain[1:])
        for name in statement.modules & self.modules.keys():
            yield from self._whole(self.modules[name])

    def _running(self, statement: Statement) -> Iterator[Step]:
        return self._files(name for what in statement.imports for name in what.runs)

    def _files(self, modules: Iterable[str]) -> Iterator[Step]:
        return ((self.modules[name], IMPORTED) for name in modules if name in self.modules)

    def _binding(self, file: Path, name: str) -> list[int]:
        if file not in self._bound:
            self._bound[file] = defaultdict(list)
            for number, statement in enumerate(self.statements(file)):
                for bound in statement.binds:
                    self._bound[file][bound].append(number)
        return self._bound[file].get(name, [])

    def _named(self, file: Path, chain: Chain) -> Iterator[Step]:
        """Yield the statements that define a dotted name of a file's top level; nothing for a builtin."""
        for number in self._binding(file, chain[0]):
            yield file, number
            statement = self.statements(file)[number]
            if statement.is_import:
                yield from self._imported(statement.imports[0], chain[1:])
        for number in self._binding(file, "*"):
            yield file, number
            yield from self._imported(self.statements(file)[number].imports[0], ())

    def _imported(self, what: Import, attributes: Chain) -> Iterator[Step]:
        if what.module in self.modules:
            chain = (what.name, *attributes) if what.name and what.name != "*" else attributes
            yield from self._attribute(what.module, chain)

    def _attribute(self, module: str, chain: Chain) -> Iterator[Step]:
        """Yield the statements that define module.attribute.attribute; the whole module without a known attribute."""
        file = self.modules[module]
        yield file, IMPORTED
        inner = f"{module}.{chain[0]}" if chain else ""
        if inner in self.modules:
            yield from self._attribute(inner, chain[1:])
        if chain and self._binding(file, chain[0]):
            yield from self._named(file, chain)
        elif inner not in self.modules:
            yield from self._whole(file)

    def _whole(self, file: Path) -> Iterator[Step]:
        yield file, IMPORTED
        for number, statement in enumerate(self.statements(file)):
            yield file, number
            for what in statement.imports if statement.is_import else ():
                yield from self._imported(what, ())

    def _data(self, reached: dict[Path, set[int]]) -> set[Path]:
        """Return data files in the folders of code that uses `__file__`, and of packages named in strings (templates).

        Data files of a package inside a package named in a string count only if a string names the inner package.
        """
        folders, packages = set[Path](), set[Path]()
        for file, numbers in reached.items():
            for statement in map(self.statements(file).__getitem__, numbers):
                if statement.looks_for_files:
                    folders.add(file.parent)
                named = (self.modules[name] for name in statement.modules & self.modules.keys())
                packages |= {path.parent for path in named if path.name == "__init__.py"}
        found = [path for folder in folders for path in folder.rglob("*")]
        found += [path for folder in packages for path in folder.rglob("*") if self._package_of(path) == folder]
        return {path for path in found if path.is_file() and path.suffix not in (".py", ".pyc")}

    def _package_of(self, path: Path) -> Path:
        """Return the folder of the innermost package that a file is in."""
        return next(folder for folder in path.parents if (folder / "__init__.py").is_file() or folder == self.source)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.source).as_posix()


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
