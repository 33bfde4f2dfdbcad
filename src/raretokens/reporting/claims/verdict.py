"""What came of a claim, as text: one line of reports/claims.csv."""

from dataclasses import dataclass, fields

from raretokens.reporting import frames

# What fails or was left out stands before what holds.
VERDICTS = ("does not hold", "not testable here", "not run", "undecided", "holds")
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
    def one_seed(self) -> bool:
        """Decided by the test set alone: other seeds might come out otherwise."""
        return self.verdict in DECIDED and not self.seeds_low


def to_csv(verdicts: list[Verdict]) -> str:
    return frames.to_csv(verdicts, [field.name for field in fields(Verdict)])
