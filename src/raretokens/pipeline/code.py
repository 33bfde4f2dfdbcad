"""The code that a stage runs, as hashes of the definitions that it can reach by their names, in whatever file they are.

A stage begins at its function in stages.py and at the modules that its job names. A statement that it reaches brings what the
names in it stand for, and what importing those files does. A module that is used as a whole brings all that is in its file, as
does a `*`. Comments, docstrings and the layout of lines do not count, so an edit that cannot change an answer makes no stage
run again.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from raretokens.pipeline.definitions import DIGITS, ROOT, Chain, Import, Statement, statements

PACKAGE = Path(__file__).parents[1]
IMPORTED = -1  # in place of a statement's number: the file as an import runs it
Step = tuple[Path, int]  # a statement of a file


class Code:
    """The files of a package as they are now; each is read once."""

    def __init__(self, package: Path = PACKAGE) -> None:
        self.package = package
        self._read: dict[Path, tuple[Statement, ...]] = {}
        self._bound: dict[Path, dict[str, list[int]]] = {}
        self._next: dict[Step, frozenset[Step]] = {}
        self._hashes: dict[tuple[str, ...], dict[str, str]] = {}

    @cached_property
    def modules(self) -> dict[str, Path]:
        """Dotted name -> file."""
        files = {
            path: [ROOT, *path.relative_to(self.package).with_suffix("").parts] for path in self.package.rglob("*.py")
        }
        return {".".join(parts).removesuffix(".__init__"): path for path, parts in files.items()}

    def of_files(self, *roots: str) -> dict[str, str]:
        """File, seen from the package -> hash of what of it can be reached from the roots.

        A root is a module (`raretokens.models.cnn`), a definition (`raretokens.models.cnn:MODEL`), or a function without what
        the top of its file imports (`raretokens.pipeline.stages:train()`). Files of data count where code looks for files.
        """
        if roots not in self._hashes:
            reached = self.reached(*roots)
            code = {path: [self.statements(path)[number].digest for number in sorted(numbers)]
                    for path, numbers in reached.items()}  # fmt: skip
            found = {self._name(path): _hash(digests) for path, digests in code.items() if digests}
            found |= {self._name(path): _hash([path.read_bytes().hex()]) for path in self._data(reached)}
            self._hashes[roots] = dict(sorted(found.items()))
        return self._hashes[roots]

    def of_rooms(self, *roots: str) -> dict[str, str]:
        """The same, a hash for each package or file at the top of this one."""
        rooms = defaultdict(list)
        for name, digest in self.of_files(*roots).items():
            rooms[name.partition("/")[0].removesuffix(".py")].append(f"{name} {digest}")
        return {room: _hash(files) for room, files in rooms.items()}

    def reached(self, *roots: str) -> dict[Path, set[int]]:
        """File that is run -> numbers of the statements that can be reached."""
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
            module = ".".join([ROOT, *file.relative_to(self.package).parent.parts])
            self._read[file] = statements(self.text_of(file), module)
        return self._read[file]

    def text_of(self, file: Path) -> str:
        return file.read_text(encoding="utf-8")

    def _begin(self, root: str) -> Iterator[Step]:
        module, _, name = root.partition(":")
        file = self.modules[module]
        if name.endswith("()"):
            for number in self._binding(file, name.removesuffix("()")):
                # What the top of this file imports surrounds the stages: it is in no job.
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
        """What importing a file does: the packages that it is in, what it imports, and its statements that act."""
        for parent in file.relative_to(self.package.parent).parents:
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
            return  # who uses the name says how (_named)
        for chain in statement.uses:
            yield from self._named(file, chain)
        for what in statement.imports if not statement.is_definition else ():
            yield from self._imported(what, ())  # bound in a branch: other statements may use it in any way
        if statement.sees_all:
            yield from self._whole(file)

    def _inside(self, statement: Statement) -> Iterator[Step]:
        """What the imports inside a statement bring, and the modules whose names are written in it."""
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
        """What a dotted name stands for that begins at the top of a file; nothing where it is built in."""
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
        """What module.attribute.attribute stands for; all of a module where none follows, or none that is known."""
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
        """Files that are no code, in the folders of code that looks for files, or for templates of a package."""
        folders = set[Path]()
        for file, numbers in reached.items():
            for statement in map(self.statements(file).__getitem__, numbers):
                if statement.looks_for_files:
                    folders.add(file.parent)
                packages = (self.modules[name] for name in statement.modules & self.modules.keys())
                folders |= {path.parent for path in packages if path.name == "__init__.py"}
        found = (path for folder in folders for path in folder.rglob("*"))
        return {path for path in found if path.is_file() and path.suffix not in (".py", ".pyc")}

    def _name(self, path: Path) -> str:
        return path.relative_to(self.package).as_posix()


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
