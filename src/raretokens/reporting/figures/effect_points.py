"""The effect of a claim in the course of training, for claims whose metric the curves of the runs have.

A verdict is of the end of training; this shows whether it would have been another one earlier, and where it is going.
"""

import math
from functools import reduce

import pandas as pd

from raretokens.evidence import effects
from raretokens.evidence.effects import chosen
from raretokens.evidence.scores import Scores
from raretokens.papers.claim import Claim, Side
from raretokens.papers.declarations import Declarations

ON_CURVES = {"ppl.total": "nll.valid"}  # the test text is read once, the validation text in the course of training
MEAN, SEED, PRINT, TURN = "", "seed", "print", "turn"  # groups of the points
Course = dict[int, pd.Series]  # seed -> update -> number


def effect_points(claim: Claim, scores: Scores, declared: Declarations) -> pd.DataFrame:
    """group, x (update) and y as text: the mean over seeds, each seed where there are several, and as horizontal lines what
    is printed and where the claim turns. Empty where a side has no curve."""
    courses = [_course(side, scores) for side in claim.all_sides.values()]
    seeds = [seed for seed in courses[0] if all(seed in course for course in courses)]
    each = {seed: _effect(claim, [course[seed] for course in courses]) for seed in seeds}
    if not each:
        return pd.DataFrame(columns=["group", "x", "y"], dtype=str)
    common = pd.concat(each.values(), axis=1, join="inner")
    means = effects.back(claim)(effects.step(claim)(common.to_numpy()).mean(axis=1))
    mean = pd.Series(means, index=common.index)
    lines = {PRINT: effects.printed_effect(claim, declared), TURN: claim.threshold}
    ends = [mean.index[0], mean.index[-1]]
    parts = [(MEAN, mean), *((SEED, course) for course in each.values() if len(each) > 1)]
    parts += [(group, pd.Series(y, index=ends)) for group, y in lines.items() if y is not None]
    return pd.concat([_rows(group, course) for group, course in parts])


def _course(side: Side, scores: Scores) -> Course:
    run = chosen(side, scores)
    names = scores.repetitions.get(run, []) if run else []
    found = {scores.lines[name].seed: _curve(side.metric, scores.points(name)) for name in names}
    return {seed: curve for seed, curve in found.items() if not curve.empty}


def _curve(metric: str, points: pd.DataFrame) -> pd.Series:
    series, _, group = ON_CURVES.get(metric, metric).partition(".")
    rows = points[(points.series == series) & (points.group == group)]
    curve = rows.set_index(rows.x.astype(int)).y.astype(float)
    return curve.map(math.exp) if metric in ON_CURVES else curve


def _effect(claim: Claim, curves: list[pd.Series]) -> pd.Series:
    """At the updates that all curves have."""
    common = reduce(pd.Index.intersection, (curve.index for curve in curves))
    values = effects.combined(claim, [curve.loc[common].to_numpy() for curve in curves])
    return pd.Series(values, index=common)


def _rows(group: str, course: pd.Series) -> pd.DataFrame:
    return pd.DataFrame({"group": group, "x": course.index.astype(str), "y": [f"{y:.6g}" for y in course]})
