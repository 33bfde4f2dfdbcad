"""Compare the reports with those of a git revision, cell by cell, with the tolerance of each metric.

Git ignores the reports of the demo, because their digits depend on the processor. The CSV files that they are compared with are
in `expected`.
"""

import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

from raretokens.errors import UserError
from raretokens.yaml_files import parsed_yaml, read_yaml
from reproduction import tasks
from reproduction.papers.declarations import Declarations
from reproduction.paths import EXPECTED, PARAMETERS, REPORTS
from reproduction.report.markdown import escaped, table
from reproduction.report.moves import (
    LINES,
    Move,
    claim_moves,
    count_moves,
    curve_moves,
    figure_moves,
    line_moves,
    presence_move,
    table_moves,
)

MERGE_MARKS = ("<<<<<<< ", "||||||| ", "=======", ">>>>>>> ")
CLAIMS, MAIN, COUNTS = "claims.csv", "main.csv", ("verdicts.csv", "other-verdicts.csv")
MOVES = {CLAIMS: claim_moves, "tables": table_moves, "figures": figure_moves}  # of a file or the files of a folder


class Revision:
    """A commit. Paths are relative to a folder, which may be any folder of the work tree.

    Raises:
        UserError: if git is not installed, or there is no repository or no such revision.
    """

    def __init__(self, name: str, folder: Path = Path()) -> None:
        self.name, self.folder = name, folder
        self._git("rev-parse", "--show-toplevel", error="not a git repository")
        commit = ("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
        self.commit = self._git(*commit, error=f"{name}: no such revision").strip()

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None if the revision has no such file."""
        done = subprocess.run(["git", "show", f"{self.commit}:./{path}"], cwd=self.folder, capture_output=True)
        return None if done.returncode else done.stdout

    def files(self, folder: str) -> list[str]:
        """Return the files below a folder, relative to it. Empty if the revision has no such folder."""
        paths = self._git("ls-tree", "-r", "--name-only", "-z", self.commit, f"{folder}/").split("\0")[:-1]
        return [path.removeprefix(f"{folder}/") for path in paths]

    def changed(self, folder: str) -> list[str]:
        """Return the files below a folder that git knows and that differ from the revision, relative to the folder."""
        paths = self._git("diff", "--name-only", "--relative", "-z", self.commit, "--", f"{folder}/").split("\0")[:-1]
        return [path.removeprefix(f"{folder}/") for path in paths]

    def parameters(self) -> list[tuple[str, Any, Any]]:
        """Return the parameters that differ from the working tree's, leaf by leaf: (key, before, now)."""
        old = _leaves(parsed_yaml(self.read(f"{PARAMETERS}") or b"", f"{self.name}:{PARAMETERS}") or {})
        new = _leaves(read_yaml(PARAMETERS) or {})
        keys = dict.fromkeys([*old, *new])
        return [(key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]

    def _git(self, *arguments: str, error: str = "") -> str:
        try:
            done = subprocess.run(["git", *arguments], cwd=self.folder, capture_output=True, text=True, errors="replace")
        except FileNotFoundError:
            raise UserError("git is not installed") from None
        if done.returncode and error:
            raise UserError(error)
        return done.stdout


def _leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(tree, dict) and tree:
        return {k: v for key, part in tree.items() for k, v in _leaves(part, f"{prefix}.{key}".strip(".")).items()}
    return {prefix: tree}


def compare(revision: Revision, declared: Declarations, reports: Path = REPORTS) -> list[Move]:
    """Return every cell of a CSV file that differs, within tolerance or not, and files that exist in one version only.

    A revision without reports is represented by its `expected`.

    Raises:
        UserError: if a file does not have the format of this version, or there are no reports to compare with `expected`.
    """
    folder = committed_folder(revision, reports)
    former = set(revision.files(f"{folder}"))
    if folder == EXPECTED:
        present, changed = set(_tables(reports)), former
    else:
        present = {path.relative_to(reports).as_posix() for path in reports.rglob("*") if path.is_file()}
        changed = set(revision.changed(f"{folder}"))
    moves = [presence_move(name, "", "", True, False) for name in sorted(former - present)]
    names = {name for name in (changed & former & present) | (present - former) if name.endswith(".csv")}
    moved: set[str] = set()  # names and statements of claims
    verdicts = 0
    for name in sorted(names, key=lambda name: (name != CLAIMS, name)):
        before, now = revision.read(f"{folder / name}"), (reports / name).read_bytes()
        found = _file_moves(name, before, now, declared, moved, verdicts, reports) if before != now else []
        moves += found
        if name == CLAIMS:
            moved = _moved_claims(found, declared)
            verdicts = len({move.row for move in found if move.column in ("verdict", "extent")})
    return moves


def committed_folder(revision: Revision, reports: Path = REPORTS) -> Path:
    """Return the folder of a revision that reports are compared with: its reports, or EXPECTED if it has none."""
    return reports if revision.files(f"{reports}") or not revision.files(f"{EXPECTED}") else EXPECTED


def _tables(reports: Path) -> list[str]:
    """Return the files of the reports that EXPECTED has copies of: the CSV files that the stage `report` writes."""
    names = [path.relative_to(reports).as_posix() for path in reports.rglob("*.csv")]
    names = [name for name in names if not name.startswith(("runs/", "curves/"))]
    if not names:
        raise UserError(f"{reports}: has no tables; dvc repro makes them")
    return names


def accept() -> int:
    """Write EXPECTED anew from the reports. Return the number of its files."""
    names = _tables(REPORTS)
    shutil.rmtree(EXPECTED, ignore_errors=True)
    for name in names:
        (EXPECTED / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPORTS / name, EXPECTED / name)
    return len(names)


def _moved_claims(moves: list[Move], declared: Declarations) -> set[str]:
    """Return names and statements of the claims whose lines moved within their tolerance."""
    names = {move.row for move in moves} - {move.row for move in moves if move.out}
    return names | {declared.claims[name].statement for name in names if name in declared.claims}


def to_markdown(revision: Revision, moves: list[Move], changed: list[tuple[str, Any, Any]]) -> str:
    """Return counts, parameters that differ (`changed`), and every move. Verdicts and headline metrics come first.

    In both tables, moves out of tolerance come first.
    """
    out = sum(move.out for move in moves)
    lines = [
        f"## Reports against {revision.name} ({revision.commit[:10]})",
        "",
        f"{len(moves)} cells moved, {out} of them out of tolerance; {len(changed)} parameters differ.",
        "",
    ]
    if changed:
        rows = [(key, escaped(str(old)), escaped(str(new))) for key, old, new in changed]
        lines += [table(("parameter", "before", "now"), rows), ""]
    metrics = {one.metric for task in tasks.names() for one in tasks.describe(task).headline.values()}
    ranks = {move: _rank(move, metrics) for move in moves}
    for title, is_shown in (("Verdicts and headline metrics", ranks.get), ("Other cells", lambda move: not ranks[move])):
        own = sorted(filter(is_shown, moves), key=lambda move: (not move.out, ranks[move]))
        if own:
            head = ("report", "row", "column", "before", "now", "delta", "tolerance", "")
            lines += [f"### {title}", "", table(head, map(_cells, own)), ""]
    return "\n".join(lines)


def _rank(move: Move, metrics: Collection[str]) -> int:
    """Return the rank of a verdict or an effect among those that a reader wants first, from 1; 0 for all others.

    metrics: the headline metrics of the tasks.
    """
    if move.file == MAIN:
        return 1
    if move.file == CLAIMS and move.column in ("verdict", "extent"):
        return 2
    if move.file in COUNTS:
        return 3
    return 4 * (move.metric in metrics)


def _cells(move: Move) -> tuple[str, ...]:
    try:
        delta = f"{float(move.after) - float(move.before):+.4g}"
    except ValueError:
        delta = ""
    words = map(escaped, (move.row, move.column, move.before, move.after))
    return move.file, *words, delta, move.tolerance, "**out**" if move.out else ""


def _file_moves(
    name: str, before: bytes | None, now: bytes, declared: Declarations, moved: set[str], verdicts: int, reports: Path
) -> list[Move]:
    if before is None:
        return [presence_move(name, "", "", False, True)]
    try:
        old, new = (_text(name, part) for part in (before, now))
        if name in LINES:
            return list(line_moves(name, old, new, declared, moved, reports / "runs"))
        if name in COUNTS:
            return list(count_moves(name, old, new, verdicts))
        return list(MOVES.get(name.split("/")[0], curve_moves)(name, old, new, declared))
    except KeyError as error:
        raise UserError(f"{name}: no column {error} on both sides; make both reports with the same version") from None
    except ValueError as error:
        raise UserError(f"{name}: not written by any known version: {' '.join(str(error).split())}") from None


def _text(name: str, part: bytes) -> str:
    text = part.decode("utf-8")  # raises UnicodeDecodeError, which is a ValueError
    if marked := [number for number, line in enumerate(text.split("\n"), start=1) if line.startswith(MERGE_MARKS)]:
        raise UserError(f"{name}: line {marked[0]} is a conflict marker of an unresolved merge")
    return text
