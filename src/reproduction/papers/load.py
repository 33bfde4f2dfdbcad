"""Load and check the declarations of data/paper. Errors name the file, the key, the value and what is allowed.

The reports need `load_declarations`. `check_declarations` checks more, before any stage runs: names of papers, and cells of
reported tables.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from string import Formatter
from typing import Any, get_args

from raretokens.errors import UserError, nearest
from raretokens.yaml_files import checked, read_yaml
from reproduction.papers.claim import Claim, Precondition
from reproduction.papers.declarations import Declarations, Method, Metric, MetricKind, Paper, Scale, Search
from reproduction.papers.setting import TASKS, USUAL, SettingsFile
from reproduction.papers.table import Column, Figure, Table

UNKNOWN = {
    "metric": "is not declared in metrics.yaml",
    "precondition": "is not declared in preconditions.yaml",
    "claim": "is not declared in claims/*.yaml",
    "run": "is in no table and on no run sheet",
}
Use = tuple[str, str, str | None, str]  # file and key; kind (a key of UNKNOWN); name; task, if the name is a run
KINDS = f"kinds are {', '.join(get_args(MetricKind))}"
BRACES = re.compile(r"\{(.+?)\}")


def load_declarations(folder: Path) -> Declarations:
    """Load all declarations of a folder. Raise UserError with one line per unknown name."""
    metrics = _named(folder / "metrics.yaml", Metric)
    path = folder / "settings.yaml"
    near = checked(SettingsFile, read_yaml(path), path)
    declared = Declarations(
        folder=folder,
        metrics=_expanded(metrics),
        tables=_tables(folder, metrics),
        claims=_claims(folder),
        preconditions=_named(folder / "preconditions.yaml", Precondition),
        figures=load_figures(folder),
        scales=_named(folder / "scales.yaml", Scale),
        papers=_named(folder / "papers.yaml", Paper),
        methods=_named(folder / "methods.yaml", Method),
        settings=near.settings,
        settings_scale=near.scale,
        reported_settings=near.reported,
    )
    if mistakes := [*unknown_names(declared), *metrics_without_kind(declared), *other_case(declared)]:
        raise UserError("\n".join(f"{folder}/{line}" for line in mistakes))
    return declared


def load_figures(folder: Path) -> dict[str, Figure]:
    return _named(folder / "figures.yaml", Figure)


def load_searches(folder: Path) -> dict[str, Search]:
    """Load how the options of runs were chosen. Only the page of methods needs these declarations."""
    return _named(folder / "searches.yaml", Search)


def _named(path: Path, kind: type) -> dict[str, Any]:
    return checked(dict[str, kind], read_yaml(path), path)


def _tables(folder: Path, metrics: dict[str, Metric]) -> dict[str, Table]:
    """Load tables/<paper>.yaml, with the lists of columns that columns.yaml defines."""
    lists = read_yaml(folder / "columns.yaml")
    checked(dict[str, list[Column]], lists, folder / "columns.yaml")
    for path, metric in metrics.items():
        for name, title in metric.columns.items():
            where = f"{folder / 'metrics.yaml'}: {path}.columns"
            if set("{*") & set(path):
                raise UserError(f"{where}: not allowed with a pattern; declare the metric of the column before it, on its own")
            if name not in lists:
                raise UserError(f"{where}: no list of columns {name!r}; {nearest(name, lists)}")
            lists[name].append({"title": title, "metric": path})
    files = sorted((folder / "tables").glob("*.yaml"))
    parts = {path: written_out(path, read_yaml(path), lists) for path in files}
    return _together({path: checked(dict[str, Table], part, path) for path, part in parts.items()}, "table")


def _claims(folder: Path) -> dict[str, Claim]:
    parts = {path: _named(path, Claim) for path in sorted((folder / "claims").glob("*.yaml"))}
    claims = {path: {name: claim.replaced(file=path.stem, paper=claim.paper or path.stem) for name, claim in part.items()}
              for path, part in parts.items()}  # fmt: skip
    return _together(claims, "claim")


def _together(parts: dict[Path, dict[str, Any]], kind: str) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for path, part in parts.items():
        if twice := whole.keys() & part:
            raise UserError(f"{path}: {min(twice)}: another file has a {kind} of that name; names are unique")
        whole |= part
    return whole


def _expanded(metrics: dict[str, Metric]) -> dict[str, Metric]:
    """Expand braces: `uniq.{freq,med}` declares `uniq.freq` and `uniq.med`. The first declaration of a name counts."""
    single: dict[str, Metric] = {}
    for pattern, metric in metrics.items():
        braces = BRACES.search(pattern)
        for part in braces[1].split(",") if braces else [""]:
            single.setdefault(pattern.replace(braces[0], part) if braces else pattern, metric)
    return single


Tree = dict[str, Any]  # a column, a side or a table, as in the file


def written_out(path: Path, tables: Any, lists: dict[str, list[Tree]]) -> Any:
    """Return tables with their short forms expanded. The schema rejects anything that is malformed.

    By default the table `agg-1` has its reported numbers in agg_table1.csv and belongs to the task USUAL. `path` is
    tables/<paper>.yaml, and `lists` has the lists of columns of columns.yaml by name.
    """
    if not isinstance(tables, dict):
        return tables
    return {
        name: _table(f"{path}: {name}", {"paper": path.stem, "reported": name.replace("-", "_table"), **table}, lists)
        if isinstance(table, dict)
        else table
        for name, table in tables.items()
    }


def _table(where: str, table: Tree, lists: dict[str, list[Tree]]) -> Tree:
    own = [column for part in table.get("columns", []) for column in _columns(where, part, lists)]
    extras = [column for part in table.get("extras", []) for column in _columns(where, part, lists)]
    kept = {key: value for key, value in table.items() if key != "extras"}
    return {"task": USUAL, **kept, "columns": [*own, *_repeated(extras, _sides(own))]}


def _columns(where: str, part: Any, lists: dict[str, list[Tree]]) -> list[Tree]:
    """Return a column as a list, or the columns of the list that `part` names."""
    if not isinstance(part, str):
        return [part]
    if part not in lists:
        raise UserError(f"{where}: no list of columns {part!r}; {nearest(part, lists)}")
    return lists[part]


def _sides(columns: list[Tree]) -> list[Tree]:
    """Return the model configs (`size`) or sides that have columns in the table, each as keys of a column."""
    sides: list[Tree] = []
    for column in columns:
        side = {key: column[key] for key in ("size", "side", "reverse") if key in column}
        if side not in sides and not column.get("absent"):
            sides.append(side)
    return sides


def _repeated(extras: list[Tree], sides: list[Tree]) -> list[Tree]:
    """Return the extra columns for each side. With several sides, the title begins with the name of the side."""
    if len(sides) < 2:
        return [{**column, **side} for side in sides or [{}] for column in extras]
    return [{**column, **side, "title": f"{_name(side)} {column['title']}"} for column in extras for side in sides]


def _name(side: Tree) -> str:
    return side.get("side") or side.get("size", "").capitalize()


def unknown_names(declared: Declarations) -> list[str]:
    """Return one line for each unknown name: the first use, and the number of further uses."""
    known: dict[tuple[str, str], Collection[str]] = {
        ("metric", ""): declared.metrics,
        ("precondition", ""): declared.preconditions,
        ("claim", ""): declared.claims,
        **{("run", task): runs for task, runs in _known_runs(declared).items()},
    }
    uses: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for use in (_in_claims, _in_figures, _in_others):
        for where, kind, name, task in use(declared):
            if name:
                uses[kind, task, name].append(where)
    return [
        f"{where}{f' and {len(others)} more' if others else ''}: {kind} {name!r} {UNKNOWN[kind]}; "
        f"{nearest(name, sorted(known[kind, task]))}"
        for (kind, task, name), (where, *others) in uses.items()
        if name not in known[kind, task] and not (kind == "metric" and declared.known_metric(name))
    ]


def metrics_without_kind(declared: Declarations) -> list[str]:
    """Return one line for each metric that a claim compares and that has no kind: its first use."""
    found: dict[str, str] = {}
    for name, claim in declared.claims.items():
        metric = claim.left.metric
        if (known := declared.known_metric(metric)) and known.kind is None:
            where = f"claims/{claim.file}.yaml: {name}"
            found.setdefault(metric, f"{where}: metric {metric!r} has no `kind` in metrics.yaml; {KINDS}")
    return list(found.values())


def other_case(declared: Declarations) -> list[str]:
    """Return one line for each file of tables or claims whose name has another case than its paper in papers.yaml."""
    names = {paper.lower(): paper for paper in declared.papers}
    files = {f"tables/{table.paper}": table.paper for table in declared.tables.values()}
    files |= {f"claims/{claim.file}": claim.file for claim in declared.claims.values()}
    return [
        f"{file}.yaml: the paper is {names[name.lower()]!r} in papers.yaml; should be the name of the file"
        for file, name in files.items()
        if names.get(name.lower(), name) != name
    ]


def _in_claims(declared: Declarations) -> Iterator[Use]:
    for name, claim in declared.claims.items():
        where = f"claims/{claim.file}.yaml: {name}"
        for need in claim.needs:
            yield f"{where}.needs", "precondition", need, ""
        for key, text in (("why", claim.why), ("but", claim.but)):
            for _, other, _, _ in Formatter().parse(text):
                yield f"{where}.{key}", "claim", other, ""
        for key, side in claim.all_sides.items():
            yield where, "metric", side.metric, ""
            for run in side.runs if not side.data else ():
                yield f"{where}.{key}.runs", "run", run, claim.task


def _in_figures(declared: Declarations) -> Iterator[Use]:
    for name, figure in declared.figures.items():
        where = f"figures.yaml: {name}"
        for panel in figure.panels:
            yield where, "claim", panel.claim, ""
            yield where, "metric", panel.metric, ""
            for legend, runs in panel.runs.items() if not panel.data else ():
                for run in runs:
                    yield f"{where}, {panel.title}, {legend}", "run", run, panel.task or figure.task


def _in_others(declared: Declarations) -> Iterator[Use]:
    for name, table in declared.tables.items():
        for column in table.columns:
            for metric in (column.metric, column.interval):
                yield f"tables/{table.paper}.yaml: {name}", "metric", metric, ""
    for name, precondition in declared.preconditions.items():
        for one in filter(None, (precondition, precondition.above, precondition.below)):
            if not one.metric.startswith("options."):
                yield f"preconditions.yaml: {name}", "metric", one.metric, ""


def _known_runs(declared: Declarations) -> dict[str, set[str]]:
    """Return task -> runs of the rows of tables, and of the run sheets of all scales."""
    top = declared.folder.absolute().parents[1]  # data/paper is two levels below
    paths = [path for path in (top / "params.yaml", *sorted(top.glob("scales/*/params.yaml"))) if path.is_file()]
    sheets: list[dict[str, Any]] = [read_yaml(path) for path in paths]
    known: dict[str, set[str]] = {task: set() for task in TASKS}
    for table in declared.tables.values():
        known[table.task] |= table.runs
    for sheet in sheets:
        for task, runs in known.items():
            runs |= {run for key in ("runs", "continued") for run in (sheet.get(key) or {}).get(task) or {}}
    return known


def check_declarations(folder: Path) -> None:
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
