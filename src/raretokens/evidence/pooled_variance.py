"""How much seeds differ, lent to a row with fewer than three by the rows of the same model and text that have several.

What a method does differs from seed to seed about as much as what its neighbours do, but not alike: the one that differs most
lends. That says nothing of a method whose own seeds differ more still, so a verdict names how few there are.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from raretokens.evidence import effects
from raretokens.evidence.effects import chosen, measured
from raretokens.evidence.intervals import LEVEL, Interval
from raretokens.evidence.scores import Scores
from raretokens.papers.claim import Claim


class Spread(NamedTuple):
    """Standard deviation of an effect from seed to seed, on the scale of effects.step, and its degrees of freedom."""

    deviation: float
    freedom: float

    def about(self, centre: float, seeds: int) -> Interval:
        """Student's t interval of the mean effect of so many seeds."""
        reach = float(stdtrit(self.freedom, (1 + LEVEL) / 2)) * self.deviation / seeds**0.5
        return Interval(centre - reach, centre + reach)


def spread(claim: Claim, scores: Scores) -> Spread | None:
    """Of the claim's effect on rows with two seeds or more in the place of its own, that which differs most; None without any.

    Where the claim compares two rows, the other is maximum likelihood's. Its seeds stand in every difference, so that k rows of
    n seeds have not k (n - 1) degrees of freedom but, with all variances alike, 4 k (n - 1) / (k + 3) (Satterthwaite). A number
    of one row has as many: rows with a seed in common share their start and the order of the text.
    """
    runs = [chosen(side, scores) for side in claim.sides.values() if not side.data]
    if None in runs:
        return None
    alone, own = len(set(runs)) == 1, scores.lines[runs[0]]
    lenders = [run for run in scores.repetitions if scores.lines[run].same_model(own)]
    found = [_steps(claim, run, run if alone else scores.beside(run), scores) for run in lenders]
    rows = [steps for steps in found if steps is not None]
    if not rows:
        return None
    variance = max(np.var(steps, ddof=1) for steps in rows)
    deviation = float(np.sqrt(2 * variance if claim.control else variance))  # a control's effect varies as much again
    return Spread(deviation, sum(len(steps) - 1 for steps in rows) * 4 / (len(rows) + 3)) if deviation else None


def _steps(claim: Claim, run: str, other: str | None, scores: Scores) -> np.ndarray | None:
    """The effect of each seed with these runs in the claim's places; None with fewer than two or where one is not finite."""
    if other is None:
        return None
    left = chosen(claim.left, scores)
    places = {
        name: side if side.data else side.replaced(runs=[run if chosen(side, scores) == left else other])
        for name, side in claim.sides.items()
    }
    moved, until = claim.replaced(**places, control=None), scores.option(left, "until") if left else None
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = effects.step(claim)(
            np.array(list(effects.seed_effects(moved, measured(moved, scores, until)).values()))
        )
    return steps if len(steps) > 1 and np.all(np.isfinite(steps)) else None
