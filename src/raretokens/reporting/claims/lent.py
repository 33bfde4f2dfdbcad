"""How much seeds differ, lent to a row with fewer than three by the rows of its task that have several.

What a method does differs from seed to seed by about as much as what its neighbours do: their variance is pooled, as an analysis
of variance does. That says nothing of a method whose own seeds differ more, so a verdict names how few there are.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from raretokens.reporting.claims import effects
from raretokens.reporting.claims.intervals import LEVEL, Interval
from raretokens.reporting.claims.measuring import chosen, measured
from raretokens.reporting.declarations.claim import Claim
from raretokens.reporting.scored import Scores


class Spread(NamedTuple):
    """Standard deviation of an effect from seed to seed, on the scale of effects.step, and its degrees of freedom."""

    deviation: float
    freedom: float

    def about(self, centre: float, seeds: int) -> Interval:
        """Student's t interval of the mean effect of so many seeds."""
        reach = float(stdtrit(self.freedom, (1 + LEVEL) / 2)) * self.deviation / seeds**0.5
        return Interval(centre - reach, centre + reach)


def spread(claim: Claim, scores: Scores) -> Spread | None:
    """Of the claim's effect on the rows with two seeds or more in the place of its own; None where there are none.

    Where the claim compares two rows, the other is maximum likelihood's. Its seeds stand in every difference, so that k rows of
    n seeds have not k (n - 1) degrees of freedom but, with all variances alike, 4 k (n - 1) / (k + 3) (Satterthwaite).
    """
    runs = [chosen(side, scores) for side in claim.sides.values() if not side.data]
    if None in runs:
        return None
    alone = len(set(runs)) == 1
    found = [_steps(claim, run, run if alone else scores.beside(run), scores) for run in scores.repetitions]
    rows = [steps for steps in found if steps is not None]
    if not rows:
        return None
    freedom = sum(len(steps) - 1 for steps in rows)
    variance = sum(np.sum((steps - steps.mean()) ** 2) for steps in rows) / freedom
    deviation = float(np.sqrt(2 * variance if claim.control else variance))  # a control's effect varies as much again
    return Spread(deviation, freedom if alone else freedom * 4 / (len(rows) + 3)) if deviation else None


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
