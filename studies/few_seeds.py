"""Can a verdict of one seed or two be trusted? What has three is judged again on each one and each two of them.

    cd scales/small && python ../../studies/few_seeds.py

The rows of a claim keep some of their seeds (maximum likelihood keeps all, where it is what they are compared with), and the
other rows lend how much seeds differ, as they do where there are no more. Writes studies/few-seeds-<scale>.csv: for each number
of seeds kept and each verdict of three, how many verdicts of fewer are the same, decide nothing instead, or decide otherwise;
and how often the interval of fewer, widened for the mean of the seeds left out, covers that mean: 95 % if the intervals are
what they say. Claims share runs, so the counts are no sample. Prints the claims of which fewer decide the opposite.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from copy import copy
from itertools import combinations
from pathlib import Path

import numpy as np

from raretokens import paths
from raretokens.config.load import load
from raretokens.evidence import effects
from raretokens.evidence.effects import chosen, measured
from raretokens.evidence.intervals import FEWEST
from raretokens.evidence.judging import judge
from raretokens.evidence.pooled_variance import spread
from raretokens.evidence.scores import PLAIN, Scores, all_scores
from raretokens.evidence.verdict import DECIDED
from raretokens.papers.claim import Claim
from raretokens.papers.declarations import Declarations
from raretokens.papers.load import load_declarations
from raretokens.pipeline.around import root
from raretokens.pipeline.jobs import sheet

VERDICTS = (*DECIDED, "undecided")
COLUMNS = ["seeds kept", "verdict of three", "judged again", "the same", "undecided instead", "decided otherwise",
           "means covered"]  # fmt: skip


def with_seeds(claim: Claim, scores: Scores, kept: tuple[int | None, ...]) -> Scores:
    """The scores as if the claim's own rows had only these seeds."""
    runs = {chosen(side, scores) for side in claim.all_sides.values() if not side.data}
    own = {run for run in runs if scores.lines[run].objective != PLAIN} or runs
    fewer = copy(scores)
    fewer.__dict__["repetitions"] = {
        run: [name for name in names if run not in own or scores.lines[name].seed in kept]
        for run, names in scores.repetitions.items()
    }
    return fewer


def again(name: str, declared: Declarations, scores: Scores) -> Iterator[tuple[int, str, bool | None]]:
    """Seeds kept, the verdict then, and whether the mean of the others is where it should be; nothing of claims without three."""
    claim = declared.claims[name]
    each = effects.seed_effects(claim, measured(claim, scores))
    if len(each) != FEWEST or None in each:
        return
    for size in range(1, FEWEST):
        for kept in combinations(each, size):
            fewer = with_seeds(claim, scores, kept)
            yield size, judge(name, claim, fewer, declared).verdict, _covers(claim, each, kept, fewer)


def _covers(claim: Claim, each: dict[int, float], kept: tuple[int, ...], fewer: Scores) -> bool | None:
    """Of the mean of some seeds about that of others: as far as both vary. None where nothing lends or one is not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = {seed: float(effects.step(claim)(effect)) for seed, effect in each.items()}
    lent = spread(claim, fewer)
    if lent is None or not np.all(np.isfinite(list(steps.values()))):
        return None
    ours, others = ([step for seed, step in steps.items() if (seed in kept) == own] for own in (True, False))
    both = 1 / (1 / len(ours) + 1 / len(others))  # as many seeds as have the variance of the difference
    found = lent.about(float(np.mean(ours)), both)
    return found.low <= float(np.mean(others)) <= found.high


def main() -> None:
    parameters = load()
    declared = load_declarations(root() / paths.PRINTED)
    scores = all_scores(sheet(parameters), paths.REPORTS / "runs")
    verdicts: Counter[tuple[int, str, str]] = Counter()
    covered: Counter[tuple[int, str, bool]] = Counter()
    for name, claim in declared.claims.items():
        of_three = judge(name, claim, scores[claim.task], declared).verdict
        if of_three not in VERDICTS:
            continue
        for size, verdict, covers in again(name, declared, scores[claim.task]):
            verdicts[size, of_three, verdict] += 1
            if covers is not None:
                covered[size, of_three, covers] += 1
            if {of_three, verdict} == set(DECIDED):
                print(f"{name}: {of_three} with three seeds, {verdict} with {size}")
    with (Path(__file__).parent / f"few-seeds-{parameters.scale}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *_rows(verdicts, covered)])


def _rows(verdicts: Counter[tuple[int, str, str]], covered: Counter[tuple[int, str, bool]]) -> Iterator[list]:
    for size in range(1, FEWEST):
        for three in VERDICTS:
            found = {verdict: verdicts[size, three, verdict] for verdict in VERDICTS}
            nothing = found["undecided"] if three in DECIDED else 0
            inside, outside = (covered[size, three, covers] for covers in (True, False))
            share = f"{100 * inside / (inside + outside):.1f} %" if inside + outside else ""
            judged = sum(found.values())
            yield [size, three, judged, found[three], nothing, judged - found[three] - nothing, share]


if __name__ == "__main__":
    main()
