"""Names that declarations use: a metric or a run that nothing knows is a slip of the pen."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Formatter
from typing import Any

from raretokens.errors import nearest
from raretokens.papers.declarations import Declarations
from raretokens.papers.task_names import TASKS
from raretokens.yaml_files import read_yaml


def unknown_metrics(declared: Declarations) -> list[str]:
    """One line for each metric that metrics.yaml does not have, however many tables have a column of it."""
    used = (found for found in _used_metrics(declared) if found[1] and declared.known_metric(found[1]) is None)
    return [
        f"{places}: metric {metric!r} is not declared in metrics.yaml; {nearest(metric, declared.metrics)}"
        for metric, places in _by_name(used).items()
    ]


def unknown_needs(declared: Declarations) -> list[str]:
    """One line for each precondition that preconditions.yaml does not have."""
    return [
        f"claims/{claim.paper}.yaml: {name}.needs: {need!r} is not declared; {nearest(need, declared.preconditions)}"
        for name, claim in declared.claims.items()
        for need in claim.needs
        if need not in declared.preconditions
    ]


def unknown_claims(declared: Declarations) -> list[str]:
    """One line for each claim of a figure or of another claim's `why` or `but` that no file of claims has."""
    return [
        f"figures.yaml: {name}: claim {panel.claim!r} is not declared; {nearest(panel.claim, declared.claims)}"
        for name, figure in declared.figures.items()
        for panel in figure.panels
        if panel.claim and panel.claim not in declared.claims
    ] + [
        f"claims/{claim.paper}.yaml: {name}.{key}: claim {other!r} is not declared; {nearest(other, declared.claims)}"
        for name, claim in declared.claims.items()
        for key, text in (("why", claim.why), ("but", claim.but))
        for _, other, _, _ in Formatter().parse(text)
        if other is not None and other not in declared.claims
    ]


def _used_metrics(declared: Declarations) -> Iterator[tuple[str, str | None]]:
    for name, table in declared.tables.items():
        for column in table.columns:
            yield from ((f"tables/{table.paper}.yaml: {name}", metric) for metric in (column.metric, column.interval))
    for name, claim in declared.claims.items():
        yield from ((f"claims/{claim.paper}.yaml: {name}", side.metric) for side in claim.all_sides.values())
    for name, figure in declared.figures.items():
        yield from ((f"figures.yaml: {name}", panel.metric) for panel in figure.panels)
    for name, need in declared.preconditions.items():
        other = [reference.metric for reference in (need.above, need.below) if reference]
        asked = (metric for metric in (need.metric, *other) if not metric.startswith("options."))
        yield from ((f"preconditions.yaml: {name}", metric) for metric in asked)


def unknown_runs(declared: Declarations) -> list[str]:
    """One line for each run of claims and figures that no table and no run sheet has."""
    sheets = [read_yaml(path) for path in _run_sheets(declared.folder)]
    known = {task: _known_runs(declared, sheets, task) for task in TASKS}
    used = ((place, (task, name)) for place, task, names in _used_runs(declared) for name in names)
    unknown = _by_name((place, (task, name)) for place, (task, name) in used if name not in known[task])
    return [
        f"{places}: run {name!r} is in no table and on no run sheet; {nearest(name, sorted(known[task]))}"
        for (task, name), places in unknown.items()
    ]


def _by_name(used: Iterable[tuple[str, Any]]) -> dict[Any, str]:
    """What is used -> its first place, and how many others there are."""
    places: dict[Any, list[str]] = {}
    for place, name in used:
        places.setdefault(name, []).append(place)
    return {name: where[0] + (f" and {len(where) - 1} more" if where[1:] else "") for name, where in places.items()}


def _used_runs(declared: Declarations) -> Iterator[tuple[str, str, list[str]]]:
    for name, claim in declared.claims.items():
        for key, side in claim.all_sides.items():
            if not side.data:
                yield f"claims/{claim.paper}.yaml: {name}.{key}.runs", claim.task, side.runs
    for name, figure in declared.figures.items():
        for panel in figure.panels:
            for legend, names in panel.runs.items() if not panel.data else ():
                yield f"figures.yaml: {name}, {panel.title}, {legend}", panel.task or figure.task, names


def _known_runs(declared: Declarations, sheets: list[dict[str, Any]], task: str) -> set[str]:
    """Runs of the tables' rows, of the run sheets of all scales (a claim serves every one), and of panels that wait for one."""
    in_tables = (table.runs for table in declared.tables.values() if table.task == task)
    on_sheets = ((tree.get(key) or {}).get(task) or {} for tree in sheets for key in ("runs", "continued"))
    waiting = (panel for figure in declared.figures.values() for panel in figure.panels if panel.kind == "missing")
    in_panels = ({name for names in panel.runs.values() for name in names} for panel in waiting if panel.task == task)
    return set().union(*in_tables, *on_sheets, *in_panels)


def _run_sheets(folder: Path) -> list[Path]:
    """folder: data/paper, two levels below the top."""
    top = folder.absolute().parents[1]
    return [path for path in (top / "params.yaml", *sorted(top.glob("scales/*/params.yaml"))) if path.is_file()]
