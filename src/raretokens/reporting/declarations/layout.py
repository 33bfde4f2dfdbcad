"""A file of tables with its short forms written out: named lists of columns, and what a file or a name already says."""

from pathlib import Path
from typing import Any

from raretokens.errors import UserError, nearest
from raretokens.reporting.tasks import USUAL

Tree = dict[str, Any]  # of a column, a side or a table, as the file has it


def written_out(path: Path, tables: Any, lists: dict[str, list[Tree]]) -> Any:
    """Tables as the schema has them; what is not understood is left for the schema to refuse.

    path: tables/<paper>.yaml. A table `agg-1` is printed in agg_table1.csv and is of the usual task, unless it says otherwise.
    """
    if not isinstance(tables, dict):
        return tables
    return {
        name: _table(f"{path}: {name}", {"paper": path.stem, "printed": name.replace("-", "_table"), **table}, lists)
        if isinstance(table, dict)
        else table
        for name, table in tables.items()
    }


def _table(place: str, table: Tree, lists: dict[str, list[Tree]]) -> Tree:
    own = [column for part in table.get("columns", []) for column in _columns(place, part, lists)]
    extras = [column for part in table.get("extras", []) for column in _columns(place, part, lists)]
    kept = {key: value for key, value in table.items() if key != "extras"}
    return {"task": USUAL, **kept, "columns": [*own, *_repeated(extras, _sides(own))]}


def _columns(place: str, part: Any, lists: dict[str, list[Tree]]) -> list[Tree]:
    """A column, or those of the list that it names."""
    if not isinstance(part, str):
        return [part]
    if part not in lists:
        raise UserError(f"{place}: no list of columns {part!r}; {nearest(part, lists)}")
    return lists[part]


def _sides(columns: list[Tree]) -> list[Tree]:
    """The sizes or sides that the table has columns of."""
    sides: list[Tree] = []
    for column in columns:
        side = {key: column[key] for key in ("size", "side", "reverse") if key in column}
        if side not in sides and not column.get("absent"):
            sides.append(side)
    return sides


def _repeated(extras: list[Tree], sides: list[Tree]) -> list[Tree]:
    """The extra columns once for each side; of several, its name begins their titles."""
    if len(sides) < 2:
        return [{**column, **side} for side in sides or [{}] for column in extras]
    return [{**column, **side, "title": f"{_name(side)} {column['title']}"} for column in extras for side in sides]


def _name(side: Tree) -> str:
    return side.get("side") or side.get("size", "").capitalize()
