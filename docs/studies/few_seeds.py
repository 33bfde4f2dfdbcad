"""Is a verdict from one or two seeds the same as one from three? Claims with exactly three seeds are judged again on fewer.

    cd scales/small && python ../../docs/studies/few_seeds.py

The runs of a claim keep one or two of their seeds. Maximum likelihood keeps all seeds where it is the baseline. The seed
variance is moderated by the other runs, as it is for all claims. The study writes few-seeds-<scale>.csv. For each
number of seeds and each verdict of three seeds, it counts how many verdicts of fewer seeds are the same, inconclusive or
decided differently. The last column says how often the interval of fewer seeds covers the mean of the other seeds, after widening
for their variance. A correct 95 % interval covers 95 % of the means. Claims share runs, so the counts are no sample. The
study prints the claims with opposite verdicts.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from shared import write_table

from raretokens.claims.comparison import Comparison
from raretokens.claims.effects import to_additive
from raretokens.claims.intervals import FEWEST_SEEDS, LEVEL
from raretokens.claims.verdict import DECIDED, TESTED, Outcome
from reproduction import paths
from reproduction.papers.claim import Claim
from reproduction.papers.declarations import Declarations
from reproduction.papers.load import load_declarations
from reproduction.papers.task_scores import MLE, AllScores, TaskScores
from reproduction.papers.verdicts import judge, judge_in, nearest
from reproduction.pipeline.jobs import run_sheet
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.surroundings import root

COLUMNS = ["seeds kept", "verdict of three", "judged again", "the same", "inconclusive instead", "decided differently",
           "means covered"]  # fmt: skip


def with_seeds(claim: Claim, scores: TaskScores, kept: tuple[int | None, ...]) -> TaskScores:
    """Return the scores with only these seeds for the runs of the claim."""
    runs = {run for run in Comparison.of_claim(claim, scores).runs.values() if run in scores.lines}
    own = {run for run in runs if scores.lines[run].objective != MLE} or runs
    return scores.with_seeds(own, kept)


def judge_again(name: str, declared: Declarations, scores: TaskScores) -> Iterator[tuple[int, Outcome, bool | None]]:
    """Yield the kept seeds, the outcome, and whether the interval covers the mean of the others, if there are three seeds."""
    claim = declared.claims[name]
    _, scores = nearest(declared.settings, scores, claim)
    effects = Comparison.of_claim(claim, scores).seed_effects
    if len(effects) != FEWEST_SEEDS or None in effects:
        return
    for size in range(1, FEWEST_SEEDS):
        for kept in combinations(effects, size):
            fewer = with_seeds(claim, scores, kept)
            outcome = judge_in(fewer, name, claim, declared).outcome
            is_open = outcome == Outcome.NOT_TESTABLE  # the runs with fewer seeds do not meet a precondition
            yield size, Outcome.INCONCLUSIVE if is_open else outcome, _covers(claim, effects, kept, fewer)


def _covers(claim: Claim, effects: dict[int, float], kept: tuple[int, ...], fewer: TaskScores) -> bool | None:
    """Whether an interval around the mean of some seeds, with the variance of both means, covers the mean of the others.

    Return None without a seed variance, or where an effect is not finite.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        additive = {seed: float(to_additive(claim.effect, effect)) for seed, effect in effects.items()}
    posterior = Comparison.of_claim(claim, fewer).seed_posterior
    if posterior is None or not np.all(np.isfinite(list(additive.values()))):
        return None
    own, others = ([value for seed, value in additive.items() if (seed in kept) == is_own] for is_own in (True, False))
    reach = posterior.reach(LEVEL) * (1 + len(own) / len(others)) ** 0.5  # the mean of the others varies, too
    return abs(float(np.mean(own) - np.mean(others))) <= reach


def main() -> None:
    parameters = load()
    declared = load_declarations(root() / paths.PAPERS)
    scores = AllScores(run_sheet(parameters), paths.REPORTS / "runs")
    verdicts: Counter[tuple[int, Outcome, Outcome]] = Counter()
    covered: Counter[tuple[int, Outcome, bool]] = Counter()
    for name, claim in declared.claims.items():
        of_three = judge(name, claim, scores[claim.task], declared).outcome
        if of_three not in TESTED:
            continue
        for size, verdict, covers in judge_again(name, declared, scores[claim.task]):
            verdicts[size, of_three, verdict] += 1
            if covers is not None:
                covered[size, of_three, covers] += 1
            if {of_three, verdict} == set(DECIDED):
                print(f"{name}: {of_three} with three seeds, {verdict} with {size}")
    write_table(f"few-seeds-{parameters.scale}", COLUMNS, _rows(verdicts, covered))


def _rows(
    verdicts: Counter[tuple[int, Outcome, Outcome]], covered: Counter[tuple[int, Outcome, bool]]
) -> Iterator[list]:
    for size in range(1, FEWEST_SEEDS):
        for three in TESTED:
            found = {verdict: verdicts[size, three, verdict] for verdict in TESTED}
            nothing = found[Outcome.INCONCLUSIVE] if three in DECIDED else 0
            inside, outside = (covered[size, three, covers] for covers in (True, False))
            share = f"{100 * inside / (inside + outside):.1f} %" if inside + outside else ""
            judged = sum(found.values())
            yield [size, three, judged, found[three], nothing, judged - found[three] - nothing, share]


if __name__ == "__main__":
    main()
