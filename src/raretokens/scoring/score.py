"""Scoring a run: the metrics of its task, neighbours in its table, and points of its figures."""

from types import ModuleType

from raretokens.metrics.named import mean_ranks, popular_pieces
from raretokens.metrics.neighbours import named_ranks, neighbours, rank_correlation, same_beginning
from raretokens.metrics.resampling import Replicates
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.course import course
from raretokens.scoring.facts import hyperparameters, identity, training
from raretokens.scoring.history import HEADER, curves
from raretokens.scoring.job import Score
from raretokens.scoring.layout import Signed, layout
from raretokens.scoring.places import Places
from raretokens.scoring.points import points
from raretokens.scoring.score_files import write_drawn, write_json, write_points, write_rows


def score(job: Score, task: ModuleType, places: Places) -> None:
    """Write <run>.json, <run>.csv and <run>.drawn.csv to places.scores and <run>.csv to places.curves.

    task: scoring.py of the run's task. Raises UserError where artifacts do not fit each other, OSError where one is missing.
    """
    artifacts = Artifacts.read(job, places)
    _write(job, artifacts, task.metrics(job, artifacts), task.drawn(job, artifacts), task.hyperparameters(job))


def _write(job: Score, artifacts: Artifacts, metrics: Signed, drawn: Replicates, further: dict) -> None:
    run, places = job.run, artifacts.places
    rows = artifacts.table, artifacts.vocabulary.pieces, artifacts.groups
    near, signature = neighbours(*rows, job.queries)
    ranks = named_ranks(*rows, job.named)
    series, history = points(artifacts, job.pictures, job.queries, job.updates)
    common = {
        **training(artifacts),
        **course(artifacts, history),
        **_of_queries(job, artifacts, near, ranks),
    }
    signed = metrics | {
        path: value for path, value in common.items() if path not in metrics
    }  # a task may say otherwise
    facts = hyperparameters(artifacts, job.training, further)
    written = layout(identity(run), signed, near, run.options, facts)
    written["mark"] = job.mark
    written["named"] = [[query, listed] for query, listed in ranks.items()]
    written["signatures"].append(["neighbours", signature])
    write_points(places.scores / f"{run.name}.csv", series)
    write_drawn(places.scores / f"{run.name}.drawn.csv", drawn)
    write_rows(places.curves / f"{run.name}.csv", HEADER, curves(history, artifacts.log))
    write_json(places.scores / f"{run.name}.json", written)


def _of_queries(job: Score, artifacts: Artifacts, near: dict, ranks: dict) -> Signed:
    """What the neighbours of the queries say of the table."""
    popular = popular_pieces(artifacts.vocabulary, artifacts.groups)
    signed: Signed = {
        "similarity.rank_correlation": rank_correlation(
            artifacts.table, artifacts.vocabulary, artifacts.groups, job.queries
        ),
        "neighbours.same_beginning": same_beginning(near),
    }
    return signed | ({"named_ranks": mean_ranks(ranks, popular)} if ranks else {})
