"""The declarations of data/paper, checked when they are read: a mistake names file, key, value and what is allowed."""

import fnmatch
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import RootModel, ValidationError

from raretokens.errors import UserError
from raretokens.reporting.declarations import layout
from raretokens.reporting.declarations.names import unknown_runs
from raretokens.reporting.declarations.schema import Claim, Declarations, Figure, Metric, Scale, Section, Table

BRACES = re.compile(r"\{(.+?)\}")


KINDS: dict[str, Any] = {"metrics": Metric, "figures": Figure, "scales": Scale}


def read(folder: Path) -> Declarations:
    """metrics, tables/, claims/, figures and scales of a folder; UserError, a line per mistake."""
    parts: dict[str, Any] = {name: _read(folder / f"{name}.yaml", kind) for name, kind in KINDS.items()}
    parts["tables"] = _read_tables(folder)
    parts["claims"] = {}
    for path in sorted((folder / "claims").glob("*.yaml")):  # a file for each paper
        claims = {name: claim.model_copy(update={"paper": path.stem}) for name, claim in _read(path, Claim).items()}
        if twice := parts["claims"].keys() & claims:
            raise UserError(f"{path}: {min(twice)}: another file has a claim of that name; names are unique")
        parts["claims"] |= claims
    declared = Declarations(**{**parts, "metrics": _spelt_out(parts["metrics"])})
    mistakes = [f"{folder}/{line}" for line in (*_unknown_metrics(declared), *unknown_runs(declared, folder))]
    if mistakes:
        raise UserError("\n".join(mistakes))
    return declared


def _read(path: Path, kind: type[Section]) -> dict[str, Section]:
    return _checked(path, kind, _tree(path))


def _read_tables(folder: Path) -> dict[str, Section]:
    """tables/<paper>.yaml, each a file of tables, with the lists of columns that columns.yaml names."""
    lists, found = _tree(folder / "columns.yaml"), dict[str, Section]()
    for path in sorted((folder / "tables").glob("*.yaml")):
        tables = _checked(path, Table, layout.spelt_out(path, _tree(path), lists))
        if twice := found.keys() & tables:
            raise UserError(f"{path}: {min(twice)}: another file has a table of that name; names are unique")
        found |= tables
    return found


def _tree(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def _checked(path: Path, kind: type[Section], tree: Any) -> dict[str, Section]:
    try:
        return RootModel[dict[str, kind]].model_validate(tree).root
    except ValidationError as error:
        lines = (f"{path}: {'.'.join(map(str, e['loc']))}: {e['input']!r}: {e['msg'].lower()}" for e in error.errors())
        raise UserError("\n".join(lines)) from None


def _spelt_out(metrics: dict[str, Metric]) -> dict[str, Metric]:
    """`uniq.{freq,med}` stands for `uniq.freq` and `uniq.med`; what is declared first stays."""
    found: dict[str, Metric] = {}
    for pattern, metric in metrics.items():
        braces = BRACES.search(pattern)
        for part in braces[1].split(",") if braces else [""]:
            found.setdefault(pattern.replace(braces[0], part) if braces else pattern, metric)
    return found


def _unknown_metrics(declared: Declarations) -> list[str]:
    used = [
        (f"tables/{table.paper}.yaml: {name}", metric)
        for name, table in declared.tables.items()
        for column in table.columns
        for metric in (column.metric, column.interval)
        if metric
    ]
    used += [
        (f"claims/{claim.paper}.yaml: {name}", side.metric)
        for name, claim in declared.claims.items()
        for side in claim.sides.values()
    ]
    used += [
        (f"figures.yaml: {name}", panel.metric)
        for name, figure in declared.figures.items()
        for panel in figure.panels
        if panel.metric
    ]
    allowed = ", ".join(declared.metrics)
    return [
        f"{place}: metric {metric!r} is not declared; metrics.yaml has {allowed}"
        for place, metric in used
        if not any(fnmatch.fnmatchcase(metric, pattern) for pattern in declared.metrics)
    ]
