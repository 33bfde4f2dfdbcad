"""What came of a claim, as text: one line of reports/claims.csv."""

from collections import Counter
from dataclasses import dataclass, fields

from raretokens import csv_files
from raretokens.papers.claim import is_ours

# What fails or was left out stands before what holds.
VERDICTS = {
    "does not hold": "every interval lies on the other side of where the claim turns, or outside the margin of no change",
    "not testable here": "the runs lack what the claim presupposes",
    "not run": "a run or a metric has no number",
    "undecided": "an interval covers where the claim turns, or nothing says how much seeds differ",
    "holds": "every interval lies where the claim says",
}
DECIDED = ("holds", "does not hold")
COVERED = "an interval covers where the claim turns"
SMALLER = f"{COVERED}; none reaches the printed effect"
FEW = {"1": "one seed", "2": "two seeds"}


@dataclass(frozen=True)
class Verdict:
    claim: str
    paper: str
    place: str
    statement: str
    metric: str
    verdict: str  # one of VERDICTS
    reason: str  # of a verdict that decides nothing
    left: str  # mean over seeds
    right: str
    ours: str  # mean effect, the control's taken away
    seeds_low: str  # 95 % interval over seeds, of fewer than three by what other rows lend; empty where there is none
    seeds_high: str
    test_low: str  # 95 % interval over the test set; empty where the metric has none
    test_high: str
    printed: str
    kind: str  # of the effect
    seeds: str  # 0 of what no training touches
    runs: str
    note: str  # why nothing is printed

    @property
    def few_seeds(self) -> str:
        """How many, of a verdict that rests on fewer than three: how much they differ is lent by other rows."""
        return FEW.get(self.seeds, "") if self.verdict in DECIDED else ""

    @property
    def over_seeds(self) -> str:
        """What the interval over seeds is of: its own, or those of the row of the same model that differ most."""
        return "lent seeds" if self.seeds in FEW else "seeds"

    @property
    def is_ours(self) -> bool:
        return is_ours(self.place)


def in_words(verdicts: list[Verdict]) -> str:
    """How many there are of each verdict, what fails and what is left out first; what is no conclusion of a paper apart."""
    parts = [[one for one in verdicts if one.is_ours == ours] for ours in (False, True)]
    theirs, ours = (", ".join(_counted(part)) for part in parts)
    apart = f"; of {len(parts[1])} readings, controls and experiments of ours {ours}" if parts[1] else ""
    return f"{theirs}{apart}"


def _counted(verdicts: list[Verdict]) -> list[str]:
    counts = Counter(one.verdict for one in verdicts)
    few = Counter(one.verdict for one in verdicts if one.few_seeds)
    return [f"{counts[kind]} {kind}{f' ({few[kind]} of one seed or two)' if few[kind] else ''}" for kind in VERDICTS]


def to_csv(verdicts: list[Verdict]) -> str:
    return csv_files.to_csv(verdicts, [field.name for field in fields(Verdict)])
