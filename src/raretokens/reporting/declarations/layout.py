"""A file of tables with its short forms written out: named lists of columns, and what a file or a name already says."""

from pathlib import Path
from typing import Any

from raretokens.errors import UserError, nearest

Column = dict[str, Any]


def spelt_out(path: Path, tables: Any, lists: dict[str, list[Column]]) -> Any:
    """Tables as the schema has them; what is not understood is left for the schema to refuse.

    path: tables/<paper>.yaml. A table `agg-1` is printed in agg_table1.csv and is of task lm, unless it says otherwise.
    """
    if not isinstance(tables, dict):
        return tables
    return {
        name: _table(f"{path}: {name}", {"paper": path.stem, "printed": name.replace("-", "_table"), **table}, lists)
        if isinstance(table, dict)
        else table
        for name, table in tables.items()
    }


def _table(place: str, table: dict[str, Any], lists: dict[str, list[Column]]) -> dict[str, Any]:
    own = [column for part in table.get("columns", []) for column in _columns(place, part, lists)]
    further = [column for part in table.get("extras", []) for column in _columns(place, part, lists)]
    kept = {key: value for key, value in table.items() if key != "extras"}
    return {"task": "lm", **kept, "columns": [*own, *_repeated(further, own)]}


def _columns(place: str, part: Any, lists: dict[str, list[Column]]) -> list[Column]:
    """A column, or those of the list that it names."""
    if not isinstance(part, str):
        return [part]
    if part not in lists:
        raise UserError(f"{place}: no list of columns {part!r}; {nearest(part, list(lists))}")
    return lists[part]


def _repeated(extras: list[Column], own: list[Column]) -> list[Column]:
    """The extra columns once for each size or side that the table has columns of; then their titles begin with it."""
    keys = ("size", "side", "reverse")
    sides = []
    for column in own:
        side = {key: column[key] for key in keys if key in column}
        if side not in sides and not column.get("absent"):
            sides.append(side)
    if len(sides) < 2:
        return [{**column, **side} for side in sides or [{}] for column in extras]
    names = [side.get("side") or side.get("size", "").capitalize() for side in sides]
    return [
        {**column, **side, "title": f"{name} {column['title']}"}
        for column in extras
        for name, side in zip(names, sides, strict=True)
    ]
