"""What came of a claim, as text: one line of reports/claims.csv."""

from dataclasses import dataclass, fields

from raretokens.reporting import frames

VERDICTS = ("holds", "does not hold", "undecided", "not run")


@dataclass(frozen=True)
class Verdict:
    claim: str
    paper: str
    place: str
    statement: str
    metric: str
    verdict: str  # one of VERDICTS
    left: str  # mean over seeds
    right: str
    ours: str  # mean effect
    lowest: str
    highest: str
    printed: str
    kind: str  # of the effect
    seeds: str
    runs: str
    note: str  # why nothing is printed


def to_csv(verdicts: list[Verdict]) -> str:
    return frames.to_csv(verdicts, [field.name for field in fields(Verdict)])
