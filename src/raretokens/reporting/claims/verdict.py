"""What came of a claim, as text: one line of reports/claims.csv."""

from collections import Counter
from dataclasses import dataclass, fields

from raretokens.reporting import frames

# What fails or was left out stands before what holds.
VERDICTS = {
    "does not hold": "every interval lies on the other side of where the claim turns, or outside the margin of no change",
    "not testable here": "the runs lack what the claim presupposes",
    "not run": "a run or a metric has no number",
    "undecided": "an interval covers where the claim turns, or there is none, or two seeds disagree",
    "holds": "every interval lies where the claim says",
}
DECIDED = ("holds", "does not hold")


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
    seeds_low: str  # 95 % interval over seeds; empty with fewer than three
    seeds_high: str
    test_low: str  # 95 % interval over the test set; empty where the metric has none
    test_high: str
    printed: str
    kind: str  # of the effect
    seeds: str
    runs: str
    note: str  # why nothing is printed

    @property
    def few_seeds(self) -> str:
        """How many, of a verdict that the test set alone decides: other seeds might come out otherwise."""
        alone = self.verdict in DECIDED and not self.seeds_low
        return {"1": "one seed", "2": "two seeds"}.get(self.seeds, f"{self.seeds} seeds") if alone else ""


def in_words(verdicts: list[Verdict]) -> str:
    """How many there are of each verdict, what fails and what is left out first."""
    counts = Counter(one.verdict for one in verdicts)
    few = Counter(one.verdict for one in verdicts if one.few_seeds)
    return ", ".join(
        f"{counts[kind]} {kind}{f' ({few[kind]} by the test set alone)' if few[kind] else ''}" for kind in VERDICTS
    )


def to_csv(verdicts: list[Verdict]) -> str:
    return frames.to_csv(verdicts, [field.name for field in fields(Verdict)])
