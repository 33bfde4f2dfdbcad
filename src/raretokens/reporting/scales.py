"""Every claim at every scale, beside print: where scales and print disagree comes first, with what the evidence says about why.

It is made from the claims.csv of each scale's reports alone, so that it can be made anew from a checkout, without any run.
"""

from collections import Counter
from pathlib import Path

import pandas as pd

from raretokens.reporting import frames
from raretokens.reporting.claims.main_claims import effect
from raretokens.reporting.claims.verdict import DECIDED, VERDICTS
from raretokens.reporting.declarations.declared import Declarations

ABOUT = """\
# The evidence at every scale

Each conclusion of the papers, its effect in print and at each scale that was run, and the verdict there. A scale decides by the
intervals that [the claims page of the demo](../reports/claims.md) explains; *3 seeds* and so on says of how many runs an effect
is the mean. What disagrees stands first, with the reason as far as it is known; [studies](../studies) are scripts that ask the
trained models for it. Scales that are not named here have not been run.
"""
Claims = dict[str, pd.DataFrame]  # scale, the largest first -> its claims.csv, by claim


def read(root: Path) -> Claims:
    """Scales with reports: those in scales/, then the demo, which is the smallest."""
    folders = [*((path.name, path) for path in sorted(root.glob("scales/*"))), ("demo", root)]
    files = {name: folder / "reports/claims.csv" for name, folder in folders}
    return {name: frames.read_csv(file).set_index("claim") for name, file in files.items() if file.is_file()}


def spent(root: Path) -> list[str]:
    """A line for each scale that says what its runs took to train."""
    files = {path.parent.name: frames.read_csv(path) for path in sorted(root.glob("scales/*/trained.csv"))}
    return [_spent(scale, rows) for scale, rows in files.items()]


def to_markdown(claims: Claims, declared: Declarations, spent: list[str]) -> str:
    largest, *others = claims
    lines = [ABOUT, _counts(claims), "", *(line for text in spent for line in (text, ""))]
    failing = [name for name in declared.claims if _verdict(claims, largest, name) == "does not hold"]
    lines += [f"## What does not hold at the {largest} scale", "", _head([*claims, "why"])]
    lines += [_row(name, claims, declared, [_why(name, claims, declared)]) for name in failing] or ["Nothing."]
    for other in others:
        lines += ["", f"## What the {other} scale decides otherwise than the {largest} scale", ""]
        turned = [name for name in declared.claims if _differ(claims, largest, other, name)]
        lines += [_head(list(claims)), *(_row(name, claims, declared) for name in turned)] if turned else ["Nothing."]
    for paper in dict.fromkeys(claim.paper for claim in declared.claims.values()):
        lines += ["", f"## {paper}", "", _head(list(claims))]
        lines += [_row(name, claims, declared) for name, claim in declared.claims.items() if claim.paper == paper]
    return "\n".join([*lines, ""])


def in_words(claims: Claims) -> str:
    """The verdicts of the largest scale in a line."""
    largest = next(iter(claims))
    counts = Counter(claims[largest].verdict)
    tested = sum(counts[kind] for kind in ("holds", "does not hold", "undecided"))
    decided = f"{counts['holds']} hold, {counts['does not hold']} do not and {counts['undecided']} are undecided"
    untested = f"{counts['not testable here']} cannot be tested by it, {counts['not run']} have no runs"
    return f"Of {tested} conclusions that the {largest} scale can test, {decided}; {untested}."


def _spent(scale: str, rows: pd.DataFrame) -> str:
    known = rows[rows.hours != ""]
    took = f"the hours of {len(known)} are known"
    if len(known):
        machines, most = " or ".join(sorted(set(known.machine))), max(known.peak_gb, key=float)
        took += f", {known.hours.astype(float).sum():.1f} together, each on {machines}, at most {most} GB"
    file = f"[trained.csv](../scales/{scale}/trained.csv)"
    return (
        f"{len(rows)} runs of the {scale} scale have been trained; {took}: {file}, with the md5 of the weights of each."
    )


def _counts(claims: Claims) -> str:
    table = ["| scale | " + " | ".join(VERDICTS) + " |", "|---" * (len(VERDICTS) + 1) + "|"]
    for scale, rows in claims.items():
        counts = Counter(rows.verdict)
        table.append(f"| {scale} | " + " | ".join(str(counts[kind]) for kind in VERDICTS) + " |")
    return "\n".join(table)


def _head(columns: list[str]) -> str:
    return "\n".join(
        f"| {' | '.join(row)} |" for row in (["claim", "where", "in print", *columns], ["---"] * (3 + len(columns)))
    )


def _row(name: str, claims: Claims, declared: Declarations, more: list[str] | None = None) -> str:
    claim = declared.claims[name]
    rows = [part.loc[name] if name in part.index else None for part in claims.values()]
    printed = next((effect(row.kind, row.printed) for row in rows if row is not None), "")
    cells = [claim.statement, f"{claim.paper} {claim.place}", printed or "*none*", *map(_shown, rows), *(more or [])]
    return f"| {' | '.join(cells)} |"


def _shown(row: pd.Series | None) -> str:
    """Effect, interval over seeds or else the test set, and verdict."""
    if row is None:
        return ""
    ends = next(((row[f"{of}_low"], row[f"{of}_high"]) for of in ("seeds", "test") if row[f"{of}_low"]), None)
    interval = f" [{effect(row.kind, ends[0])}, {effect(row.kind, ends[1])}]" if ends else ""
    seeds = f", {row.seeds} seed{'s' if row.seeds != '1' else ''}" if row.ours else ""
    reason = f" ({row.reason})" if row.verdict == "not testable here" else ""
    return f"{effect(row.kind, row.ours)}{interval} **{row.verdict}**{seeds}{reason}".strip()


def _why(name: str, claims: Claims, declared: Declarations) -> str:
    """The declared reason, with the effects of the claims that it names at the largest scale."""
    rows = next(iter(claims.values()))
    effects = dict.fromkeys(declared.claims, "not measured")
    effects |= {other: effect(row.kind, row.ours) for other, row in rows.iterrows() if row.ours}
    return (declared.claims[name].why or "not known").format_map(effects)


def _verdict(claims: Claims, scale: str, name: str) -> str:
    return str(claims[scale].verdict.get(name, ""))


def _differ(claims: Claims, one: str, other: str, name: str) -> bool:
    verdicts = {_verdict(claims, scale, name) for scale in (one, other)}
    return verdicts == set(DECIDED)
