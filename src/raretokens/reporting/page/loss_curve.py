"""The loss of a run while training, as a drawing."""

from pathlib import Path
from typing import Any, NamedTuple

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 206, 48, 6, 12, 26  # of the drawing and its margins, in its own units
POINTS = 60  # of a curve on the page; all of them are in the CSV file beside it

Line = list[tuple[float, float]]


class Frame(NamedTuple):
    """The numbers at the edges of the drawing."""

    left: float
    right: float
    low: float
    high: float

    def across(self, x: float) -> str:
        return f"{LEFT + (WIDTH - LEFT - RIGHT) * (x - self.left) / ((self.right - self.left) or 1):.0f}"

    def down(self, y: float) -> str:
        return f"{TOP + (HEIGHT - BOTTOM - TOP) * (self.high - y) / ((self.high - self.low) or 1):.0f}"


def loss_curve(points: Path) -> dict[str, Any] | None:
    """The loss over the updates (series `nll`), a polyline for each group; None where nothing is logged."""
    lines = _lines(points) if points.is_file() else {}
    if not lines:
        return None
    frame = _frame(lines)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "lines": {group: _polyline(frame, line) for group, line in lines.items()},
        "last": {group: f"{line[-1][1]:.3f}" for group, line in lines.items()},
        "across": [(frame.across(x), f"{x:.0f}") for x in _ticks(frame.left, frame.right)],
        "up": [(frame.down(y), f"{y:.2f}") for y in _ticks(frame.low, frame.high)],
    }


def _lines(points: Path) -> dict[str, Line]:
    lines: dict[str, Line] = {}
    for text in points.read_text(encoding="utf-8").splitlines():
        if text.startswith("nll,"):  # few lines of a long file
            _, group, x, y = text.split(",")
            lines.setdefault(group, []).append((float(x), float(y)))
    return lines


def _frame(lines: dict[str, Line]) -> Frame:
    xs, ys = zip(*(point for line in lines.values() for point in line), strict=True)
    return Frame(min(xs), max(xs), min(ys), max(ys))


def _polyline(frame: Frame, line: Line) -> str:
    thinned = line[:: -(-len(line) // POINTS)]
    return " ".join(f"{frame.across(x)},{frame.down(y)}" for x, y in dict.fromkeys((*thinned, line[-1])))


def _ticks(first: float, last: float) -> list[float]:
    return list(dict.fromkeys((first, (first + last) / 2, last)))
