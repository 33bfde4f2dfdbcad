"""Every claim at every scale, compared with the paper; disagreements come first, with their reasons.

It is made from the claims.csv of each scale's reports alone, so that it can be made anew from a checkout, without any run.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from raretokens import csv_files
from raretokens.evidence.verdict import DECIDED, SMALLER, Outcome, Verdict
from raretokens.papers.declarations import Declarations
from raretokens.report.claims import read_csv
from raretokens.report.effect_text import effect_text, named_intervals, seeds_text

ABOUT = """\
# The evidence at every scale

Each row is a conclusion with its reported effect, and with its measured effect and verdict at each scale. [The claims page of the
demo](../reports/claims.md) explains the intervals that decide a verdict. Contradicted conclusions come first, with the reason
where it is known. The [studies](../studies) are scripts that look for such reasons in the trained models. Conclusions overlap, so
their counts are no sample.
"""
Claims = dict[str, dict[str, Verdict]]  # scale, the largest first -> the verdicts of its claims.csv, by claim


def read(root: Path, declared: Declarations) -> Claims:
    """Scales with reports, from the last that is declared to the first, the demo; then those that are not declared."""
    folders = {"demo": root} | {path.name: path for path in sorted(root.glob("scales/*"))}
    order = {name: place for place, name in enumerate(reversed(declared.scales))}
    names = sorted(folders, key=lambda name: order.get(name, len(order)))
    files = {name: folders[name] / "reports/claims.csv" for name in names}
    return {name: read_csv(file, declared) for name, file in files.items() if file.is_file()}


def spent(root: Path) -> list[str]:
    """A line for each scale that says what its runs took to train."""
    files = {path.parent.name: csv_files.read_csv(path) for path in sorted(root.glob("scales/*/trained.csv"))}
    return [_spent(scale, rows) for scale, rows in files.items()]


def to_markdown(claims: Claims, declared: Declarations, spent: list[str]) -> str:
    largest, *others = claims
    outcomes = {name: {scale: own[name].outcome for scale, own in claims.items() if name in own} for name in declared.claims}

    def section(title: str, names: Iterable[str], field: str = "") -> list[str]:
        rows = [_row(name, claims, declared, field) for name in names]
        head = [_head([*claims, *([field] if field else [])])] if rows or field else []
        return ["", f"## {title}", "", *head, *(rows or ["Nothing."])]

    failing = [name for name in outcomes if outcomes[name].get(largest) == Outcome.CONTRADICTED]
    doubted = [name for name in outcomes if outcomes[name].get(largest) == Outcome.REPRODUCED and declared.claims[name].but]
    lines = [ABOUT, _counts(claims), *(line for text in spent for line in ("", text))]
    lines += section(f"Contradicted at the {largest} scale", failing, "why")
    lines += section(f"Reproduced at the {largest} scale, with a caveat", doubted, "but")
    for other in others:
        turned = [name for name, own in outcomes.items() if {own.get(other), own.get(largest)} == set(DECIDED)]
        lines += section(f"Different verdicts at the {other} and the {largest} scale", turned)
    for paper in dict.fromkeys(claim.paper for claim in declared.claims.values()):
        lines += section(paper, [name for name, claim in declared.claims.items() if claim.paper == paper])
    return "\n".join([*lines, ""])


def in_words(claims: Claims, declared: Declarations) -> str:
    """The verdicts of the largest scale in a line each: what the rebuilt papers conclude, what later ones do, readings of ours.

    A comparison that two papers make is counted once.
    """
    largest, *_ = claims
    once = {claim.comparison_key: name for name, claim in reversed(declared.claims.items())}
    verdicts = [verdict for name, verdict in claims[largest].items() if name in once.values()]
    rebuilt = {table.paper for table in declared.tables.values()}
    ours = [verdict for verdict in verdicts if verdict.claim.is_ours]
    theirs = [one for one in verdicts if not one.claim.is_ours and one.claim.paper in rebuilt]
    later = [one for one in verdicts if not one.claim.is_ours and one.claim.paper not in rebuilt]
    left = Counter(one.outcome for one in theirs)
    untested = f"{left[Outcome.NOT_TESTABLE]} cannot be tested by it, {left[Outcome.NOT_RUN]} have no runs or no number"
    return (
        f"Of {_decided(theirs, f'conclusions that the {largest} scale can test')}; {untested}. "
        "What two papers conclude alike counts once; others overlap, so the counts are no sample.\n"
        f"Of {_decided(ours, 'our interpretations, controls and experiments')}. "
        f"Of {_decided(later, 'conclusions of later papers')}."
    )


def _decided(verdicts: list[Verdict], what: str) -> str:
    """How many could be tested and what came of them."""
    counts = Counter(one.outcome for one in verdicts)
    few = Counter(one.outcome for one in verdicts if one.is_of_few_seeds)
    shown = {kind: f"{_counted(counts[kind], kind)}{f' ({few[kind]} of them with one seed or two)' if few[kind] else ''}"
             for kind in DECIDED}  # fmt: skip
    tested = sum(counts[kind] for kind in (*DECIDED, Outcome.INCONCLUSIVE))
    smaller = sum(one.reason == SMALLER for one in verdicts)
    apart = f" (of {smaller} no interval reaches the reported effect)" if smaller else ""
    undecided = _counted(counts[Outcome.INCONCLUSIVE], Outcome.INCONCLUSIVE)
    return f"{tested} {what}, {', '.join(shown.values())} and {undecided}{apart}"


def _counted(count: int, outcome: Outcome) -> str:
    verbs = {
        Outcome.REPRODUCED: ("is reproduced", "are reproduced"),
        Outcome.CONTRADICTED: ("is contradicted", "are contradicted"),
        Outcome.INCONCLUSIVE: ("is inconclusive", "are inconclusive"),
    }
    return f"{count} {verbs[outcome][count != 1]}"


def _spent(scale: str, rows: pd.DataFrame) -> str:
    known = rows[rows.hours != ""]
    took = f"the hours of {len(known)} are known"
    if len(known):
        machines, most = " or ".join(sorted(set(known.machine))), max(known.peak_gb, key=float)
        took += f", {known.hours.astype(float).sum():.1f} together, each on {machines}, at most {most} GB"
    dirty = rows.revision.str.endswith("-dirty").sum()
    took += f"; {dirty} by code with changes that were not committed (-dirty)" if dirty else ""
    file = f"[trained.csv](../scales/{scale}/trained.csv)"
    return (
        f"{len(rows)} runs of the {scale} scale have been trained; {took}: {file}, with the md5 of the weights of each."
    )


def _counts(claims: Claims) -> str:
    table = ["| scale | " + " | ".join(Outcome) + " |", "|---" * (len(Outcome) + 1) + "|"]
    for scale, verdicts in claims.items():
        counts = Counter(verdict.outcome for verdict in verdicts.values())
        table.append(f"| {scale} | " + " | ".join(str(counts[kind]) for kind in Outcome) + " |")
    return "\n".join(table)


def _head(columns: list[str]) -> str:
    return "\n".join(
        f"| {' | '.join(row)} |" for row in (["claim", "where", "reported", *columns], ["---"] * (3 + len(columns)))
    )


def _row(name: str, claims: Claims, declared: Declarations, field: str = "") -> str:
    """field: of the claim, a last column."""
    claim = declared.claims[name]
    verdicts = [part.get(name) for part in claims.values()]
    reported = next((effect_text(claim.effect, verdict.reported) for verdict in verdicts if verdict), "") or "*none*"
    more = [_filled(getattr(claim, field) or "not known", claims, declared)] if field else []
    return f"| {' | '.join([claim.statement, f'{claim.paper} {claim.place}', reported, *map(_shown, verdicts), *more])} |"


def _shown(verdict: Verdict | None) -> str:
    """Effect, its intervals and verdict."""
    if verdict is None:
        return ""
    kind = verdict.claim.effect
    intervals = [
        f" [{effect_text(kind, low)}, {effect_text(kind, high)}] {name}"
        for name, (low, high) in named_intervals(verdict.effect).items()
    ]
    told = verdict.reason if verdict.outcome in (Outcome.NOT_TESTABLE, Outcome.NOT_RUN) else ""
    told = "no interval reaches the reported effect" if verdict.reason == SMALLER else told
    reason = f" ({told})" if told else ""
    effect = effect_text(kind, verdict.effect.value)
    return f"{effect}{','.join(intervals)} **{verdict.outcome}**{seeds_text(verdict.effect)}{reason}".strip()


def _filled(text: str, claims: Claims, declared: Declarations) -> str:
    """A text with the effects of the claims that it names, at the largest scale."""
    largest, *_ = claims.values()
    measured = {other: one for other, one in largest.items() if one.effect.value is not None}
    effects = {other: effect_text(one.claim.effect, one.effect.value) for other, one in measured.items()}
    return text.format_map(dict.fromkeys(declared.claims, "not measured") | effects)
