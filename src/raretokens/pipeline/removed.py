"""Scores of runs that are no longer on the run sheet: no stage owns them any more, so nobody else would remove them."""

from pathlib import Path

from raretokens.evidence.run_sheet import Sheet


def remove(sheet: Sheet, *folders: Path) -> None:
    """Remove files of other runs; folders: of which each has a folder a task, and files <run>.<ending> in it."""
    for folder in folders:
        for path in sorted(folder.glob("*/*.*")):
            task, run = path.parent.name, path.name.split(".")[0]
            if run not in {*sheet.runs.get(task, {}), *sheet.baselines.get(task, {})}:
                path.unlink()
