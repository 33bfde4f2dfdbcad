"""Curves of runs for DVC's plots: reports/curves/<task>/<run>.csv."""

from pathlib import Path

from raretokens.reporting.scored import Scores


def curves_of_all_runs(scores: Scores, folder: Path) -> str:
    """The curves of all runs of a task (folder/<run>.csv) as one table with a column `run`: what `dvc plots` draws."""
    lines: list[str] = []
    for name in scores.lines:
        path = folder / f"{name}.csv"
        if path.is_file() and scores.read(name):
            header, *rows = path.read_text(encoding="utf-8").splitlines()
            lines += [*([] if lines else [f"run,{header}"]), *(f"{name},{row}" for row in rows)]
    return "".join(f"{line}\n" for line in lines)
