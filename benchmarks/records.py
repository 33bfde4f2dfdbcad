"""What all benchmarks share, without torch: memory of this process, rows kept as CSV."""

import csv
from pathlib import Path

from raretokens.files import atomic_write


def memory(key: str) -> int:
    """Bytes: VmRSS, resident now; VmHWM, at most so far."""
    lines = Path("/proc/self/status").read_text().split("\n")
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def keep(rows: list[dict], path: Path, key: tuple[str, ...]) -> None:
    """Write rows as CSV; rows of a file that is there stay, unless a new row has the same `key` (what was measured together)."""
    measured = {tuple(str(row[column]) for column in key) for row in rows}
    old: list[dict] = []
    if path.exists():
        with open(path, encoding="utf-8", newline="") as file:
            old = [row for row in csv.DictReader(file) if tuple(row[column] for column in key) not in measured]
    columns = list(dict.fromkeys(column for row in [*rows, *old] for column in row))
    with atomic_write(path) as part, open(part, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*old, *rows])
