"""Do the tests notice small faults? Each mutant of the core is run against the tests that are about its module.

    python benchmarks/mutation.py [--most 300] [--minutes 40] [--modules loss,objectives/agg] [--out benchmarks/mutation.csv]

A mutant is one operator, constant or condition of a module changed. They are drawn over all modules, the same ones
for the same `--most`; one that has a row in `--out` is not run again, so a run that was stopped goes on. Nothing is written to
the package: the tests run in a namespace of their own, in which another file is mounted over the module, so that processes which
they start see it too. Needs Linux, and either root or user namespaces.
"""

import argparse
import ast
import contextlib
import csv
import ctypes
import importlib
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import coverage
from records import keep

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/raretokens"
# Folder or module -> the tests about it, the quickest first; the longest fitting name counts.
TESTS: dict[str, tuple[str, ...]] = {
    "loss": ("gated_cross_entropy", "objective_rules", "objectives"),
    "loss/chunks": ("gated_cross_entropy", "chunks", "objectives"),
    "loss/facts": ("id_order", "objective_rules", "rarity", "objectives", "public"),
    "loss/terms": ("gated_cross_entropy", "skipgram"),
    "loss/loop": ("loop", "public"),
    "objectives": ("objective_rules", "rarity", "objectives"),
    "objectives/agg": ("id_order", "objective_rules", "rarity", "objectives"),
    "objectives/registry": ("public", "objectives"),
    "objectives/frage": ("objective_rules", "rarity", "objectives", "skipgram"),
    "evaluation": ("score", "classifiers", "skipgram"),
    "evaluation/ctranslate2_models": ("decoding",),
    "evaluation/decomposition": ("decomposition", "score"),
    "evaluation/geometry": ("metric_popularity", "metric_geometry", "score"),
    "evaluation/language_model": ("decoding", "decomposition", "score"),
    "evaluation/recurrent": ("recurrent_evaluation",),
    "evaluation/score_files": ("score", "measure"),
    "evaluation/metrics": ("metric_geometry", "score"),
    "evaluation/metrics/predictions": ("metrics", "printed_prefixes", "score", "classifiers"),
    "evaluation/metrics/bootstrap": ("metrics", "score", "classifiers"),
    "evaluation/metrics/bleu": ("bleu", "metrics", "score"),
    "evaluation/metrics/undertrained": ("undertrained",),
    "evaluation/metrics/text": ("metrics", "classifiers", "measure"),
    "evaluation/metrics/word_recall": ("word_recall",),
    "evaluation/metrics/similarity": ("metrics", "known_answers", "score"),
    "evaluation/metrics/neighbours": ("metric_geometry", "metric_popularity"),
    "evaluation/metrics/frequency": ("metric_popularity", "metric_geometry", "metric_rows", "measure"),
    "evaluation/metrics/isotropy": ("metric_positive_cosine", "metric_geometry"),
    "evaluation/metrics/spectrum": ("metric_spectrum", "metric_geometry", "metric_rows", "measure"),
    "evidence": ("intervals", "claims", "claim_tables", "methods", "paired", "seeds", "report"),
    "evidence/comparison": ("intervals", "claims", "methods", "paired", "reproducibility"),
    "evidence/logit_bias": ("decomposition", "methods", "claims"),
    "evidence/item_scores": ("own_claims",),
    "report/diff": ("diff",),
}
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
# That the tests need, imported once for all children.
LIBRARIES = (
    "accelerate", "gensim.models", "hypothesis", "jinja2", "matplotlib.pyplot", "pandas", "pydantic", "pytest", "sacrebleu",
    "sacremoses", "safetensors.torch", "scipy.optimize", "scipy.stats", "tokenizers", "torch.utils.checkpoint",
)  # fmt: skip
# Constants of how much is read or worked on at a time: memory and speed depend on them, no answer does.
PORTIONS = {"LINES", "CHUNK", "CHUNK_CUDA", "BLOCK", "QUERIES"}
NEW_MOUNTS, NEW_USER = 0x20000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER
NOT_RUN = 99
MARGIN = 30.0  # seconds that a mutant may take beyond three times the tests without it


class Mutant(NamedTuple):
    module: str  # metrics/bleu
    line: int
    before: str
    after: str
    source: str  # of the whole module


class Place(NamedTuple):
    module: str
    node: int  # of those that act
    change: int  # of those that can be done to it


def places(module: str) -> Iterator[Place]:
    """Of all mutants of a module."""
    for number, node in enumerate(_code(_tree(module))):
        yield from (Place(module, number, change) for change, _ in enumerate(_changes(node)))


def mutant_at(place: Place) -> Mutant:
    tree = _tree(place.module)
    node = next(node for number, node in enumerate(_code(tree)) if number == place.node)
    before = _text(node)
    [*_changes(node)][place.change](node)
    return Mutant(place.module, node.lineno, before, _text(node), ast.unparse(tree))


def _tree(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that act: no annotation, and nothing that only a type checker or a reader sees."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: asks what holds anyway
                continue
            if isinstance(node, ast.AST) and "TYPE_CHECKING" not in ast.unparse(getattr(node, "test", ast.Pass())):
                if hasattr(node, "lineno"):
                    yield node
                if not isinstance(node, ast.Raise | ast.FormattedValue):  # words for people
                    yield from _code(node)


def _changes(node: ast.AST) -> Iterator[Callable[[ast.AST], None]]:
    """What can be done to a node, each to a copy of it."""
    if isinstance(node, ast.Compare):
        for at in range(len(node.ops)):
            yield lambda other, at=at: other.ops.__setitem__(at, SWAPS[type(other.ops[at])]())
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        if not _is_of_words(node):
            yield lambda other: setattr(other, "op", SWAPS[type(other.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield lambda other: setattr(
            other, "value", not other.value if isinstance(other.value, bool) else other.value + 1
        )
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield lambda other: setattr(other, "test", ast.UnaryOp(ast.Not(), other.test))
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield lambda other: setattr(other, "op", ast.UAdd()) if not isinstance(other.op, ast.Not) else _doubled(other)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield lambda other: setattr(other, "value", ast.Constant(None))


def _is_of_words(node: ast.AST) -> bool:
    """A text with another, a path with its part, X | None: no operator of numbers."""
    parts = [getattr(node, name) for name in ("left", "right", "value") if hasattr(node, name)]
    return any(isinstance(part, ast.JoinedStr) or isinstance(getattr(part, "value", 0), str | None) for part in parts)


def _doubled(node: ast.AST) -> None:
    node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _text(node: ast.AST) -> str:
    """The first line of a node, as a row can hold it."""
    return ast.unparse(node).split("\n")[0][:100]


def tests_of(module: str) -> tuple[str, ...]:
    """Paths of the tests about a module."""
    names = [name for name in TESTS if module == name or module.startswith(f"{name}/")]
    return tuple(str(ROOT / f"tests/test_{test}.py") for test in TESTS[max(names, key=len)])


def modules(wanted: list[str]) -> list[str]:
    found = (path.relative_to(PACKAGE).with_suffix("").as_posix() for name in TESTS for path in _files(name))
    return sorted({name for name in found if not wanted or any(f"{name}/".startswith(f"{part}/") for part in wanted)})


def _files(name: str) -> list[Path]:
    path = PACKAGE / name
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


class Watched:
    """A plugin of pytest: which lines of the package each test runs, and how long it takes."""

    def __init__(self) -> None:
        self.lines: dict[str, set[tuple[str, int]]] = {}
        self.seconds: dict[str, float] = {}
        self.coverage = coverage.Coverage(data_file=None, config_file=False, include=[f"{PACKAGE}/*"])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.seconds[nodeid] = -time.monotonic()
        self.coverage.start()
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.coverage.stop()
        self.seconds[nodeid] += time.monotonic()

    def pytest_sessionfinish(self) -> None:
        found = self.coverage.get_data()
        self.lines = {nodeid: set() for nodeid in self.seconds}
        for file in found.measured_files():
            module = str(Path(file).relative_to(PACKAGE).with_suffix(""))
            for line, tests in found.contexts_by_lineno(file).items():
                for test in filter(None, tests):
                    self.lines[test].add((module, line))
        del self.coverage


class Ordered:
    """A plugin of pytest: first the tests that run the line which was changed, and the quick ones before the slow."""

    def __init__(self, watched: Watched, mutant: Mutant) -> None:
        self.watched, self.line = watched, (mutant.module, mutant.line)

    def pytest_collection_modifyitems(self, items: list) -> None:
        keys = {item: (self.line not in self.watched.lines.get(item.nodeid, ()), self.watched.seconds.get(item.nodeid, 0.0))
                for item in items}  # fmt: skip
        of_file = {item.path: min(keys[other] for other in items if other.path == item.path) for item in items}
        items.sort(
            key=lambda item: (keys[item][0], of_file[item.path], str(item.path), keys[item])
        )  # fixtures of a file


def watch(tests: tuple[str, ...]) -> Watched:
    """The tests as they are, which must pass."""
    watched = Watched()
    with tempfile.TemporaryFile() as into:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                status = _run(tests, watched)
                pickle.dump(watched, into)
                into.flush()
                os._exit(status)
            os._exit(NOT_RUN)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"{' '.join(tests)}: these fail without any mutant")
        into.seek(0)  # the child wrote through the same handle
        return pickle.load(into)


def outcome(mutant: Mutant, tests: tuple[str, ...], watched: Watched, seconds: float) -> str:
    """killed, survived or, where the tests went on and on, timeout."""
    child = os.fork()
    if child == 0:
        signal.alarm(int(seconds))
        with contextlib.suppress(BaseException):
            _changed(mutant)
            os._exit(_run(tests, Ordered(watched, mutant)))
        os._exit(NOT_RUN)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) == signal.SIGALRM else "killed"
    if os.WEXITSTATUS(status) in (4, 5, NOT_RUN):  # pytest's: wrong call, no tests
        raise SystemExit(f"{' '.join(tests)}: pytest ran nothing")
    return "survived" if os.WEXITSTATUS(status) == 0 else "killed"


def _run(tests: tuple[str, ...], plugin: object) -> int:
    """In a child: the tests; pytest's exit status."""
    import hypothesis
    import pytest

    # An example that fails is enough: no smaller one is looked for.
    hypothesis.settings.register_profile("mutation", phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate])
    hypothesis.settings.load_profile("mutation")
    os.chdir(ROOT)
    with open(os.devnull, "w") as quiet:
        os.dup2(quiet.fileno(), 1)
        os.dup2(quiet.fileno(), 2)
    return int(
        pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0", *tests], [plugin])
    )


def _changed(mutant: Mutant) -> None:
    """From here on this process and those that it starts see the mutant where the module was; nobody else does."""
    libc, uid, gid = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    if libc.unshare(NEW_MOUNTS | (NEW_USER if uid else 0)):
        raise OSError(ctypes.get_errno(), "no namespace of its own for a mutant")
    if uid:  # who mounts is root, of the namespace
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False, encoding="utf-8") as file:
        file.write(mutant.source)
    os.utime(file.name, (0, zlib.crc32(mutant.source.encode())))  # compiled code is known by the time of its source
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", file.name, PACKAGE / f"{mutant.module}.py"], check=True)
    os.unlink(file.name)


def done(path: Path) -> set[tuple[str, ...]]:
    if not path.exists():
        return set()
    with open(path, encoding="utf-8", newline="") as file:
        return {key(row) for row in csv.DictReader(file)}


def key(row: dict) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("module", "line", "before", "after"))


def drawn(wanted: list[str], most: int) -> Iterator[Mutant]:
    """So many of all, in an order of chance, which is the same for more of them."""
    every = [place for module in modules(wanted) for place in places(module)]
    random.Random(0).shuffle(every)
    print(f"{len(every)} mutants of {len(modules(wanted))} modules; {min(most, len(every))} drawn", flush=True)
    return islice((mutant for mutant in map(mutant_at, every) if mutant.line not in _portions(mutant.module)), most)


@cache
def _portions(module: str) -> set[int]:
    """Lines of a module that say how much is worked on at a time."""
    return {node.lineno for node in _tree(module).body
            if isinstance(node, ast.Assign) and PORTIONS & {getattr(target, "id", "") for target in node.targets}}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--seconds", type=float, help="of a mutant at most; without it from the tests alone")
    parser.add_argument("--modules", default="", help="folders or modules below src/raretokens; default: all of TESTS")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/mutation.csv")
    arguments = parser.parse_args()
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(ROOT / "data/scratch/pycache")  # children compile once
    for library in LIBRARIES:
        importlib.import_module(library)
    end, watched, known = time.monotonic() + 60 * arguments.minutes, {}, done(arguments.out)
    for mutant in drawn([*filter(None, arguments.modules.split(","))], arguments.most):
        row = {name: getattr(mutant, name) for name in ("module", "line", "before", "after")}
        if key(row) in known or time.monotonic() > end:
            continue
        tests = tests_of(mutant.module)
        if tests not in watched:
            watched[tests] = watch(tests)
        usual = sum(watched[tests].seconds.values())
        row["outcome"] = outcome(mutant, tests, watched[tests], arguments.seconds or 3 * usual + MARGIN)
        keep([row], arguments.out, ("module", "line", "before", "after"))
        print(*row.values(), flush=True)
    report(arguments.out)


def report(path: Path) -> None:
    """Print how many were noticed and write it beside the rows."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    parts = {row["module"].rpartition("/")[0] for row in rows}
    sums = [_sum(part, [row for row in rows if row["module"].rpartition("/")[0] == part]) for part in sorted(parts)]
    sums.append(_sum("all", rows))
    for one in sums:
        print(*one.values(), sep="\t")
    keep(sums, path.with_stem(f"{path.stem}-noticed"), ("part",))


def _sum(part: str, rows: list[dict]) -> dict[str, object]:
    noticed = sum(row["outcome"] != "survived" for row in rows)
    return {"part": part, "mutants": len(rows), "noticed": noticed, "percent": f"{100 * noticed / len(rows):.1f}"}


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
