"""The layout of a score file, and what language models and translation models are both scored by."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raretokens.config import Parameters
from raretokens.metrics.all_but_top import all_but_top
from raretokens.metrics.artifacts import Artifacts
from raretokens.metrics.cosine import mean_cosine, mean_inner_product, rare_freq_cosine
from raretokens.metrics.facts import hyperparameters, identity
from raretokens.metrics.history import HEADER, curves
from raretokens.metrics.isotropy import isotropy, isotropy_both_signs, log_partitions
from raretokens.metrics.neighbours import named_ranks, neighbours
from raretokens.metrics.points import points
from raretokens.metrics.score_files import write_json, write_points, write_rows
from raretokens.metrics.spectrum import effective_rank, iso_score

REPORTS = Path("reports/runs")
CURVES = Path("reports/curves")
Signed = dict[str, tuple[Any, str]]  # metric -> (value, signature)


def geometry(artifacts: Artifacts) -> Signed:
    """Metrics of the embedding table alone."""
    table, groups = artifacts.table, artifacts.groups
    partitions = log_partitions(table, groups)
    return {
        "isotropy": isotropy(partitions),
        "isotropy_both_signs": isotropy_both_signs(partitions),
        "mean_cosine": mean_cosine(table, groups),
        "rare_freq_cosine": rare_freq_cosine(table, groups),
        "inner_product": mean_inner_product(table, groups),
        "iso_score": iso_score(table, groups),
        "effective_rank": effective_rank(table, groups),
        **_without_the_top(artifacts),
    }


def _without_the_top(artifacts: Artifacts) -> Signed:
    table, how = all_but_top(artifacts.table, artifacts.groups)
    partitions, by_isotropy = isotropy(log_partitions(table, artifacts.groups, ["total"]))
    cosine, by_cosine = mean_cosine(table, artifacts.groups)
    return {
        "all_but_top.isotropy": (partitions["total"], f"{how}|{by_isotropy}"),
        "all_but_top.mean_cosine": (cosine, f"{how}|{by_cosine}"),
    }


def write(parameters: Parameters, artifacts: Artifacts, metrics: Signed) -> None:
    """reports/runs/<task>/<run>.json and .csv, reports/curves/<task>/<run>.csv."""
    run = artifacts.run
    queries = getattr(parameters.neighbours, run.task)
    named = parameters.neighbours.named if run.task == "nmt" else {}
    rows = artifacts.table, artifacts.vocabulary.pieces, artifacts.groups
    found, signature = neighbours(*rows, queries)
    score = layout(identity(artifacts), metrics, found, run.options, hyperparameters(parameters, artifacts))
    score["named"] = [[query, ranks] for query, ranks in named_ranks(*rows, named).items()]
    score["signatures"].append(["neighbours", signature])
    every = parameters.training(run).snapshot_every
    updates = [update for update in getattr(parameters.curves, run.task) if update % every == 0]
    series, history = points(artifacts, queries, updates)
    write_points(REPORTS / run.task / f"{run.name}.csv", series)
    write_rows(CURVES / run.task / f"{run.name}.csv", HEADER, curves(history, artifacts.log))
    write_json(REPORTS / run.task / f"{run.name}.json", score)


def layout(
    facts: Mapping[str, Any],
    metrics: Signed,
    near: Mapping[str, list] | None = None,
    options: Mapping[str, Any] | None = None,
    parameters: Sequence = (),
) -> dict[str, Any]:
    """A score file's tree; a dotted metric name opens a dictionary. Text sits in lists, which `dvc exp show` skips."""
    values: dict[str, Any] = {}
    for path, (value, _) in metrics.items():
        *parents, name = path.split(".")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return {
        **dict.fromkeys(("run", "task", "objective", "size", "seed")),
        **facts,
        "metrics": values,
        "neighbours": [[query, found] for query, found in (near or {}).items()],
        "signatures": [[path, signature] for path, (_, signature) in metrics.items()],
        "options": [[key, value] for key, value in (options or {}).items()],
        "parameters": list(parameters),
    }
