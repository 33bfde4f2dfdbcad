"""Whether the runs of a claim can test it at all."""

from collections.abc import Iterator

from raretokens.evidence.effects import chosen
from raretokens.evidence.scores import Scores
from raretokens.papers.claim import Claim, Presupposition, Reference


def unmet(claim: Claim, declared: dict[str, Presupposition], scores: Scores) -> str | None:
    """Why the claim cannot be tested on these runs; None where it can. Of a run that has no scores nothing is asked."""
    reasons = [reason for name in claim.needs for reason in _reasons(declared[name], claim, scores)]
    return "; ".join(dict.fromkeys(reasons)) or None


def _reasons(need: Presupposition, claim: Claim, scores: Scores) -> Iterator[str]:
    """Of each run that is asked and does not meet it; what needs no model is asked for what it has."""
    for run in _asked(need, claim, scores):
        number = _number_of(run, need.metric, scores)
        if number is not None and not all(_holds(need, number, scores)):
            yield need.reason
        elif number is None and run in scores.lines and scores.scored(run):
            yield f"{run} has no {need.metric}"


def _holds(need: Presupposition, number: float, scores: Scores) -> Iterator[bool]:
    yield need.least is None or number >= need.least
    yield need.most is None or number <= need.most
    yield (other := _number(need.above, scores)) is None or number > other
    yield (other := _number(need.below, scores)) is None or number < other


def _asked(need: Presupposition, claim: Claim, scores: Scores) -> Iterator[str]:
    if need.run:
        run = scores.choose(need.run) or scores.choose(need.run, data=True)
        yield from [run] if run else []
        return
    for name, side in claim.sides.items():
        if need.of in (name, "both") and (run := chosen(side, scores)):
            yield run


def _number(reference: Reference | None, scores: Scores) -> float | None:
    if reference is None:
        return None
    run = scores.choose(reference.run) or scores.choose(reference.run, data=True)
    return _number_of(run, reference.metric, scores) if run else None


def _number_of(run: str, metric: str, scores: Scores) -> float | None:
    """A metric, or an option of the run as `options.<name>`."""
    if metric.startswith("options."):
        return scores.fact(run, metric)
    value = scores.value(run, metric)
    return value.mean if value else None
