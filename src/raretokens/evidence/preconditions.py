"""What must hold of the runs of a comparison before it can test anything."""

from collections.abc import Iterable, Iterator

from raretokens.evidence.comparison import Comparison
from raretokens.evidence.scores import Scores
from raretokens.papers.claim import Precondition, Reference


def unmet(preconditions: Iterable[Precondition], comparison: Comparison) -> str | None:
    """Why the comparison's runs cannot test it, or None. A run without scores is not checked."""
    reasons = [reason for precondition in preconditions for reason in _reasons(precondition, comparison)]
    return "; ".join(dict.fromkeys(reasons)) or None


def _reasons(precondition: Precondition, comparison: Comparison) -> Iterator[str]:
    """One for each run that does not meet the precondition, or has scores but not its metric."""
    scores = comparison.scores
    for run in _runs(precondition, comparison):
        number = _number_of(run, precondition.metric, scores)
        if number is not None and not all(_is_met(precondition, number, scores)):
            yield precondition.reason
        elif number is None and run in scores.lines and scores.scored(run):
            yield f"{run} has no {precondition.metric}"


def _runs(precondition: Precondition, comparison: Comparison) -> Iterator[str]:
    if precondition.run:
        run = _choose(precondition.run, comparison.scores)
        yield from [run] if run else []
        return
    for name in comparison.sides:
        if precondition.of in (name, "both") and (run := comparison.runs[name]):
            yield run


def _is_met(precondition: Precondition, number: float, scores: Scores) -> Iterator[bool]:
    yield precondition.least is None or number >= precondition.least
    yield precondition.most is None or number <= precondition.most
    yield (other := _reference(precondition.above, scores)) is None or number > other
    yield (other := _reference(precondition.below, scores)) is None or number < other


def _reference(reference: Reference | None, scores: Scores) -> float | None:
    run = _choose(reference.run, scores) if reference else None
    return _number_of(run, reference.metric, scores) if reference and run else None


def _choose(names: list[str], scores: Scores) -> str | None:
    return scores.choose(names) or scores.choose(names, data=True)


def _number_of(run: str, metric: str, scores: Scores) -> float | None:
    """A metric, or an option of the run as `options.<name>`."""
    if metric.startswith("options."):
        return scores.fact(run, metric)
    value = scores.value(run, metric)
    return value.mean if value else None
