"""Names in declarations that nothing declares: metrics, runs, preconditions and claims."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from string import Formatter
from typing import Any

from raretokens.errors import nearest
from raretokens.papers.declarations import Declarations
from raretokens.papers.task_names import TASKS
from raretokens.yaml_files import read_yaml

UNKNOWN = {
    "metric": "is not declared in metrics.yaml",
    "precondition": "is not declared in preconditions.yaml",
    "claim": "is in no file of claims",
    "run": "is in no table and on no run sheet",
}
Use = tuple[str, str, str | None, str]  # place; kind: key of UNKNOWN; name; task of a run


def unknown_names(declared: Declarations) -> list[str]:
    """One line for each unknown name, with the first place that uses it and how many others do."""
    known: dict[tuple[str, str], Collection[str]] = {
        ("metric", ""): declared.metrics,
        ("precondition", ""): declared.preconditions,
        ("claim", ""): declared.claims,
        **{("run", task): runs for task, runs in _known_runs(declared).items()},
    }
    places: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for use in (_in_tables, _in_claims, _in_figures, _in_preconditions):
        for place, kind, name, task in use(declared):
            if name:
                places[kind, task, name].append(place)
    return [
        f"{place}{f' and {len(others)} more' if others else ''}: {kind} {name!r} {UNKNOWN[kind]}; "
        f"{nearest(name, sorted(known[kind, task]))}"
        for (kind, task, name), (place, *others) in places.items()
        if name not in known[kind, task] and not (kind == "metric" and declared.known_metric(name))
    ]


def _in_tables(declared: Declarations) -> Iterator[Use]:
    for name, table in declared.tables.items():
        for column in table.columns:
            for metric in (column.metric, column.interval):
                yield f"tables/{table.paper}.yaml: {name}", "metric", metric, ""


def _in_claims(declared: Declarations) -> Iterator[Use]:
    for name, claim in declared.claims.items():
        place = f"claims/{claim.paper}.yaml: {name}"
        for need in claim.needs:
            yield f"{place}.needs", "precondition", need, ""
        for key, text in (("why", claim.why), ("but", claim.but)):
            for _, other, _, _ in Formatter().parse(text):
                yield f"{place}.{key}", "claim", other, ""
        for key, side in claim.all_sides.items():
            yield place, "metric", side.metric, ""
            for run in side.runs if not side.data else ():
                yield f"{place}.{key}.runs", "run", run, claim.task


def _in_figures(declared: Declarations) -> Iterator[Use]:
    for name, figure in declared.figures.items():
        place = f"figures.yaml: {name}"
        for panel in figure.panels:
            yield place, "claim", panel.claim, ""
            yield place, "metric", panel.metric, ""
            for legend, runs in panel.runs.items() if not panel.data else ():
                for run in runs:
                    yield f"{place}, {panel.title}, {legend}", "run", run, panel.task or figure.task


def _in_preconditions(declared: Declarations) -> Iterator[Use]:
    for name, precondition in declared.preconditions.items():
        for one in filter(None, (precondition, precondition.above, precondition.below)):
            if not one.metric.startswith("options."):
                yield f"preconditions.yaml: {name}", "metric", one.metric, ""


def _known_runs(declared: Declarations) -> dict[str, set[str]]:
    """Task -> runs of the tables' rows, of the run sheets of all scales, and of panels that wait for one."""
    top = declared.folder.absolute().parents[1]  # data/paper is two levels below
    paths = [path for path in (top / "params.yaml", *sorted(top.glob("scales/*/params.yaml"))) if path.is_file()]
    sheets: list[dict[str, Any]] = [read_yaml(path) for path in paths]
    known: dict[str, set[str]] = {task: set() for task in TASKS}
    for table in declared.tables.values():
        known[table.task] |= table.runs
    for sheet in sheets:
        for task, runs in known.items():
            runs |= {run for key in ("runs", "continued") for run in (sheet.get(key) or {}).get(task) or {}}
    for panel in (panel for figure in declared.figures.values() for panel in figure.panels):
        if panel.kind == "missing" and panel.task:
            known[panel.task] |= {run for runs in panel.runs.values() for run in runs}
    return known
