"""Moves as Markdown: counts, parameters that differ, and every move, those out of tolerance first."""

from typing import Any

from raretokens.report.diff import Move, number
from raretokens.report.revision import Revision
from raretokens.report.table_texts import escaped


def to_markdown(revision: Revision, moves: list[Move], changed: list[tuple[str, Any, Any]]) -> str:
    """changed: parameters that differ."""
    out = sum(move.out for move in moves)
    lines = [
        f"## Reports against {revision.name} ({revision.commit[:10]})",
        "",
        f"{len(moves)} cells moved, {out} of them out of tolerance; {len(changed)} parameters differ.",
        "",
    ]
    if changed:
        rows = [f"| {key} | {escaped(str(old))} | {escaped(str(new))} |" for key, old, new in changed]
        lines += ["| parameter | before | now |", "|---|---|---|", *rows, ""]
    if moves:
        lines += ["| report | row | column | before | now | delta | tolerance | |", "|---|---|---|---|---|---|---|---|"]
        lines += [_line(move) for move in sorted(moves, key=lambda move: not move.out)]
    return "\n".join([*lines, ""])


def _line(move: Move) -> str:
    old, new = number(move.before), number(move.after)
    delta = "" if old is None or new is None else f"{new - old:+.4g}"
    words = map(escaped, (move.row, move.column, move.before, move.after))
    return f"| {move.place} | {' | '.join(words)} | {delta} | {move.tolerance} | {'**out**' if move.out else ''} |"
