"""Checks of all declarations of data/paper, made before any stage runs: names of papers, and cells of reported tables."""

import re
from collections.abc import Iterator
from pathlib import Path

from raretokens.errors import UserError, nearest
from raretokens.yaml_files import read_yaml
from reproduction.papers.declarations import Declarations
from reproduction.papers.load import load_declarations


def check(folder: Path) -> None:
    """Load and check all declarations of a folder. Raise UserError with one line for each mistake."""
    declared = load_declarations(folder)
    lines = [f"{folder}/{line}" for line in _papers(declared)] + list(_reported(declared))
    if lines:
        raise UserError("\n".join(dict.fromkeys(lines)))


def _papers(declared: Declarations) -> Iterator[str]:
    """Yield a line for each file and name that belongs to no paper of papers.yaml.

    The paper of a claim may have no entry, as that of a method, but then the claim names it. No name may differ from an entry in
    case, blanks or hyphens alone.
    """
    folder = declared.folder
    for kind in ("tables", "claims"):
        for file in sorted((folder / kind).iterdir()):
            if file.suffix != ".yaml":
                yield f"{kind}/{file.name}: is not read; the name must end in .yaml"
            elif kind == "tables" and file.stem not in declared.papers:
                yield f"tables/{file.name}: {file.stem!r} is no paper of papers.yaml; {nearest(file.stem, declared.papers)}"
    for file in sorted((folder / "claims").glob("*.yaml")):
        for name, claim in (read_yaml(file) or {}).items():
            if "paper" not in claim and file.stem not in declared.papers:
                what = f"claims/{file.name}: {name}.paper: missing; {file.stem!r} is no paper of papers.yaml"
                yield f"{what}; {nearest(file.stem, declared.papers)}"
    entries = {_plain(name): name for name in declared.papers}
    named = {f"claims/{claim.file}.yaml: {name}": claim.paper for name, claim in declared.claims.items()}
    named |= {f"figures.yaml: {name}": figure.paper for name, figure in declared.figures.items()}
    for where, paper in named.items():
        if entries.get(_plain(paper), paper) != paper:
            yield f"{where}.paper: {paper!r} is no paper of papers.yaml; the entry is {entries[_plain(paper)]!r}"


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).casefold()


def _reported(declared: Declarations) -> Iterator[str]:
    """Yield a line for each reported table that lacks a file or a column that a table names, or a cell that a claim names."""
    tables = declared.tables.values()
    wanted = [(table.reported, None, None, None) for table in tables]
    wanted += [(table.reported, None, column.column, column.group) for table in tables for column in table.columns]
    wanted += [
        side.reported for claim in declared.claims.values() for side in claim.all_sides.values() if side.reported
    ]
    for file, row, column, group in wanted:
        try:
            reported = declared.reported(file)
            if row is None:
                reported.get("", column, group)
            else:
                reported.mean(row, column, group)
        except UserError as error:
            yield str(error)
