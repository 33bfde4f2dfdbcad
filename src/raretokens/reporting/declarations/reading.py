"""The declarations of data/paper, checked when they are read: a mistake names file, key, value and what is allowed."""

import re
from pathlib import Path
from typing import Any

from raretokens.errors import UserError, nearest
from raretokens.reporting.declarations import layout
from raretokens.reporting.declarations.claim import Claim, Presupposition
from raretokens.reporting.declarations.declared import Declarations
from raretokens.reporting.declarations.figure import Figure
from raretokens.reporting.declarations.metric import Metric
from raretokens.reporting.declarations.names import unknown_claims, unknown_metrics, unknown_needs, unknown_runs
from raretokens.reporting.declarations.paper_table import Table
from raretokens.reporting.declarations.row import Column
from raretokens.reporting.declarations.scale import Scale
from raretokens.yaml_files import checked, read_yaml

BRACES = re.compile(r"\{(.+?)\}")


def read(folder: Path) -> Declarations:
    """metrics, tables/, claims/, figures and scales of a folder; UserError, a line per mistake."""
    metrics = _named(folder / "metrics.yaml", Metric)
    declared = Declarations(
        folder=folder,
        metrics=_expanded(metrics),
        tables=_tables(folder, metrics),
        claims=_claims(folder),
        presuppositions=_presuppositions(folder / "presuppositions.yaml"),
        figures=_named(folder / "figures.yaml", Figure),
        scales=_named(folder / "scales.yaml", Scale),
    )
    mistakes = [
        f"{folder}/{line}"
        for unknown in (unknown_metrics, unknown_runs, unknown_needs, unknown_claims)
        for line in unknown(declared)
    ]
    if mistakes:
        raise UserError("\n".join(mistakes))
    return declared


def _named(path: Path, kind: type) -> dict[str, Any]:
    return checked(dict[str, kind], read_yaml(path), path)


def _tables(folder: Path, metrics: dict[str, Metric]) -> dict[str, Table]:
    """tables/<paper>.yaml, each a file of tables, with the lists of columns that columns.yaml names."""
    lists = read_yaml(folder / "columns.yaml")
    checked(dict[str, list[Column]], lists, folder / "columns.yaml")
    for path, metric in metrics.items():
        for name, title in metric.columns.items():
            if name not in lists:
                where = f"{folder / 'metrics.yaml'}: {path}.columns"
                raise UserError(f"{where}: no list of columns {name!r}; {nearest(name, lists)}")
            lists[name].append({"title": title, "metric": path})
    files = sorted((folder / "tables").glob("*.yaml"))
    parts = {path: layout.written_out(path, read_yaml(path), lists) for path in files}
    return _together({path: checked(dict[str, Table], part, path) for path, part in parts.items()}, "table")


def _claims(folder: Path) -> dict[str, Claim]:
    """claims/<paper>.yaml."""
    parts = {path: _named(path, Claim) for path in sorted((folder / "claims").glob("*.yaml"))}
    with_paper = {
        path: {name: claim.replaced(paper=path.stem) for name, claim in part.items()} for path, part in parts.items()
    }
    return _together(with_paper, "claim")


def _presuppositions(path: Path) -> dict[str, Presupposition]:
    return _named(path, Presupposition) if path.is_file() else {}


def _together(parts: dict[Path, dict[str, Any]], kind: str) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for path, part in parts.items():
        if twice := whole.keys() & part:
            raise UserError(f"{path}: {min(twice)}: another file has a {kind} of that name; names are unique")
        whole |= part
    return whole


def _expanded(metrics: dict[str, Metric]) -> dict[str, Metric]:
    """`uniq.{freq,med}` stands for `uniq.freq` and `uniq.med`; what is declared first stays."""
    single: dict[str, Metric] = {}
    for pattern, metric in metrics.items():
        braces = BRACES.search(pattern)
        for part in braces[1].split(",") if braces else [""]:
            single.setdefault(pattern.replace(braces[0], part) if braces else pattern, metric)
    return single
