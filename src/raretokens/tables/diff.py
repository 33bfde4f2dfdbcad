"""The reports of the working tree beside those of a git revision, cell by cell, with each metric's tolerance."""

import csv
import io
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from raretokens.config import UserError
from raretokens.tables.declarations import Declarations

KEYS = {"tables": ("row", "column"), "claims": ("claim",), "figures": ("panel", "run", "group")}


@dataclass(frozen=True)
class Move:
    """A cell that is not what it was."""

    place: str
    row: str
    column: str
    before: str
    after: str
    tolerance: str
    out: bool


class Revision:
    """Files of a git revision, seen from a folder of the work tree."""

    def __init__(self, name: str, folder: Path = Path()) -> None:
        self.name, self.folder = name, folder
        self._git("rev-parse", "--show-toplevel", error="not a git repository")
        self.commit = self._git(
            "rev-parse", "--verify", f"{name}^{{commit}}", error=f"{name}: no such revision"
        ).strip()

    def read(self, path: str) -> str | None:
        done = subprocess.run(["git", "show", f"{self.commit}:./{path}"], cwd=self.folder, capture_output=True)
        return None if done.returncode else done.stdout.decode("utf-8")

    def list(self, folder: str) -> list[str]:
        return self._git("ls-tree", "--name-only", self.commit, f"{folder}/", error="").split("\n")[:-1]

    def _git(self, *arguments: str, error: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.folder, capture_output=True, text=True)
        if done.returncode and error:
            raise UserError(error)
        return done.stdout


def compare(revision: Revision, declared: Declarations, reports: Path = Path("reports")) -> list[Move]:
    """Every cell of tables, claims and figures that moved, those within their tolerance too."""
    names = {f"{kind}/{path.name}" for kind in ("tables", "figures") for path in (reports / kind).glob("*.csv")}
    names |= {
        "/".join(path.split("/")[-2:])
        for kind in ("tables", "figures")
        for path in revision.list(f"{reports}/{kind}")
        if path.endswith(".csv")
    }
    moves: list[Move] = []
    for name in [*sorted(names), "claims.csv"]:
        now = (reports / name).read_text(encoding="utf-8") if (reports / name).is_file() else None
        before = revision.read(f"{reports}/{name}")
        if now != before:
            moves += _file_moves(name, before, now, declared)
    return moves


def _file_moves(name: str, before: str | None, now: str | None, declared: Declarations) -> Iterator[Move]:
    if before is None or now is None:
        yield Move(name, "", "", "" if before is None else "present", "" if now is None else "present", "", True)
        return
    kind = name.split("/")[0].removesuffix(".csv")
    if kind == "figures":
        yield from _figure_moves(name, before, now, declared)
        return
    old, new = ({tuple(row[key] for key in KEYS[kind]): row for row in _rows(text)} for text in (before, now))
    for key in dict.fromkeys([*old, *new]):
        yield from _cell_moves(name, kind, key, old.get(key), new.get(key), declared)


def _cell_moves(
    name: str, kind: str, key: tuple[str, ...], old: dict | None, new: dict | None, declared: Declarations
) -> Iterator[Move]:
    row, column = (*key, "")[:2]
    if old is None or new is None:
        yield Move(name, row, column, "" if old is None else "present", "" if new is None else "present", "", True)
        return
    if kind == "claims":
        if old["verdict"] != new["verdict"]:
            yield Move(name, row, "verdict", old["verdict"], new["verdict"], "", True)
        return
    drift = declared.metric(new["metric"]).drift
    bound = " or ".join(f"{value:g} {unit}" for unit, value in drift.model_dump().items() if value is not None)
    if old["paper"] != new["paper"]:
        yield Move(name, row, f"{column} (printed)", old["paper"], new["paper"], "exact", True)
    before, after = old["ours"], new["ours"]
    if before != after:
        numbers = [_number(text) for text in (before, after)]
        free = drift.abs == float("inf")  # words, which may change as long as there are some
        out = not (before and after) if free else None in numbers or not drift.allows(*numbers)  # type: ignore[arg-type]
        yield Move(name, row, column, before, after, bound, out)


def _figure_moves(name: str, before: str, now: str, declared: Declarations) -> Iterator[Move]:
    """Curves are compared point by point, clouds by their sorted coordinates: points have no identity across machines."""
    figure = declared.figures.get(Path(name).stem)
    limit = figure.drift if figure else 0.0
    old, new = (_series(text) for text in (before, now))
    for key in dict.fromkeys([*old, *new]):
        a, b = old.get(key), new.get(key)
        if a is None or b is None or len(a) != len(b):
            counts = ["" if part is None else f"{len(part)} points" for part in (a, b)]
            yield Move(name, " ".join(key), "points", *counts, "same number", True)
            continue
        if key[2]:  # a cloud of a frequency group
            a, b = np.sort(a, axis=0), np.sort(b, axis=0)
        span = np.maximum(np.ptp(a, axis=0), 1e-12)
        shift = float((np.abs(a - b).mean(axis=0) / span).max())
        if shift:
            yield Move(
                name,
                " ".join(filter(None, key)),
                "mean shift / range",
                "0",
                f"{shift:.4f}",
                f"{limit:g}",
                shift > limit,
            )


def _series(text: str) -> dict[tuple[str, ...], np.ndarray]:
    found: dict[tuple[str, ...], list] = {}
    for row in _rows(text):
        found.setdefault(tuple(row[key] for key in KEYS["figures"]), []).append((float(row["x"]), float(row["y"])))
    return {key: np.array(points) for key, points in found.items()}


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def parameters(revision: Revision, path: Path = Path("params.yaml")) -> list[tuple[str, Any, Any]]:
    """Parameters that differ: (key, before, now), leaf by leaf."""
    old, new = (
        _leaves(yaml.safe_load(text or "") or {})
        for text in (revision.read(str(path)), path.read_text(encoding="utf-8"))
    )
    return [(key, old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]


def _leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(tree, dict) and tree:
        return {k: v for key, part in tree.items() for k, v in _leaves(part, f"{prefix}.{key}".strip(".")).items()}
    return {prefix: tree}


def to_markdown(revision: Revision, moves: list[Move], changed: list[tuple[str, Any, Any]]) -> str:
    out = [move for move in moves if move.out]
    lines = [
        f"## Reports against {revision.name} ({revision.commit[:10]})",
        "",
        f"{len(moves)} cells moved, {len(out)} of them out of tolerance; {len(changed)} parameters differ.",
        "",
    ]
    if changed:
        lines += ["| parameter | before | now |", "|---|---|---|", *(f"| {k} | {a} | {b} |" for k, a, b in changed), ""]
    if moves:
        lines += ["| report | row | column | before | now | tolerance | |", "|---|---|---|---|---|---|---|"]
        lines += [
            f"| {m.place} | {m.row} | {m.column} | {m.before} | {m.after} | {m.tolerance} | {'**out**' if m.out else ''} |"
            for m in sorted(moves, key=lambda m: not m.out)
        ]
    return "\n".join([*lines, ""])
