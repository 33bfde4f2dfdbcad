"""Curves of runs for DVC's plots: reports/curves/<task>/<run>.csv."""

from pathlib import Path

from raretokens.evidence.scores import Scores


def curves_of_all_runs(scores: Scores, folder: Path) -> str:
    """The curves of all runs of a task (folder/<run>.csv) as one table, with run and family: what `dvc plots` draws."""
    lines: list[str] = []
    for name, line in scores.lines.items():
        path = folder / f"{name}.csv"
        if path.is_file() and scores.read(name):
            header, *rows = path.read_text(encoding="utf-8").splitlines()
            family = _family(line.objective, {other.objective for other in scores.lines.values()})
            lines += [*([] if lines else [f"run,{header},family"]), *(f"{name},{row},{family}" for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def _family(objective: str, objectives: set[str]) -> str:
    """The objective whose name begins its own: freeze_b is of the family freeze."""
    return min(name for name in objectives if f"{objective}_".startswith(f"{name}_"))
