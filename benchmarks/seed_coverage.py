"""How often does the 95 % interval over seeds alone contain the true difference of two systems? Each has one number for a seed.

    OMP_NUM_THREADS=1 python benchmarks/seed_coverage.py --out benchmarks/seed-coverage.csv

`covered` is of the intervals of `raretokens claims`, which subtract the common part of a seed if an F test finds one.
`unpaired` is of the same intervals without this test. `student` is of Student's t with pooled variances. `none` is the percentage
without an interval, because two seeds that move both systems alike leave too little to estimate the variance from.
"""

import argparse
from pathlib import Path

import numpy as np
from records import keep
from scipy import stats

from raretokens.claims.effects import Family
from raretokens.claims.intervals import LEVEL, EffectPart, moderated

KEY = ("ratio", "seeds")
SYSTEMS = ("A", "B")


def decides(variances: dict[str, tuple[float, float]], seeds: int, difference: float) -> bool:
    """Whether the moderated interval excludes 0. `variances`: of each system, with the degrees of freedom."""
    values, freedoms = np.array([*variances.values()]).T
    return bool(moderated(values, freedoms, [EffectPart(*variances[one], seeds) for one in SYSTEMS]).p(difference) < 1 - LEVEL)


def measure(ratio: int, seeds: int, replicates: int) -> dict[str, object]:
    """Return a row: percent of the intervals that contain the true difference, which is 0."""
    random = np.random.default_rng([ratio, seeds])
    numbers = random.normal(size=(replicates, 2, seeds)) * np.array([1, ratio])[:, None]
    differences, missed, unpaired, known = numbers[:, 1].mean(1) - numbers[:, 0].mean(1), 0, 0, 0
    for own, difference in zip(numbers, differences, strict=True):
        family = Family({one: dict(enumerate(row.tolist())) for one, row in zip(SYSTEMS, own, strict=True)})
        plain = family.variances(is_paired=False)
        variances = family.variances(is_paired=True) if family.p_of_seeds < 1 - LEVEL else plain
        unpaired += decides(plain, seeds, difference)
        known += bool(variances)
        missed += bool(variances) and decides(variances, seeds, difference)
    student = stats.ttest_ind(numbers[:, 0], numbers[:, 1], axis=1).pvalue < 1 - LEVEL
    shares = {"covered": missed / known, "unpaired": unpaired / replicates, "student": student.mean()}
    percents = {name: f"{100 * (1 - share):.1f}" for name, share in shares.items()}
    return {"ratio": ratio, "seeds": seeds, **percents, "none": f"{100 * (1 - known / replicates):.1f}", "replicates": replicates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=6000)
    parser.add_argument("--seeds", default="2,3,5,10")
    parser.add_argument("--ratios", default="1,2,4", help="standard deviation of the seeds of B divided by that of A")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    for ratio in map(int, given.ratios.split(",")):
        for seeds in map(int, given.seeds.split(",")):
            row = measure(ratio, seeds, given.replicates)
            print(row, flush=True)
            if given.out:
                keep([row], given.out, KEY)


if __name__ == "__main__":
    main()
