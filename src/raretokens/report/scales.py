"""Verdicts of several scales side by side, and the training cost of each scale.

The page needs only claims.csv and trained.csv of each scale, so that a checkout can rebuild it without any run.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from raretokens import csv_files
from raretokens.evidence.verdict import DECIDED, Verdict
from raretokens.papers.declarations import Declarations
from raretokens.report import claims as claims_of_scale
from raretokens.report.effect_text import effect_text, with_interval
from raretokens.report.markdown import render

Claims = dict[str, dict[str, Verdict]]  # scale, the largest first -> verdicts of its claims.csv by claim


def read(root: Path, declared: Declarations) -> Claims:
    """Return the scales with reports, in reverse order of their declaration, so that the demo is last. Others follow."""
    folders = {"demo": root} | {path.name: path for path in sorted(root.glob("scales/*"))}
    order = {name: rank for rank, name in enumerate(reversed(declared.scales))}
    names = sorted(folders, key=lambda name: order.get(name, len(order)))
    files = {name: folders[name] / "reports/claims.csv" for name in names}
    return {name: claims_of_scale.read_csv(file, declared) for name, file in files.items() if file.is_file()}


def training_costs(root: Path) -> list[str]:
    """Return sentences for each scale on the training cost of its runs."""
    return [_training_cost(file.parent.name, csv_files.read_csv(file)) for file in sorted(root.glob("scales/*/trained.csv"))]


def to_markdown(claims: Claims, declared: Declarations, costs: list[str]) -> str:
    """Return counts, pages and training cost of each scale, and the conclusions that two scales decide differently."""
    largest, *others = claims
    return render(
        "scales.md",
        "raretokens.report.documentation",
        folders={scale: "../reports" if scale == "demo" else f"../scales/{scale}/reports" for scale in claims},
        counts={scale: claims_of_scale.in_words(list(own.values()), declared) for scale, own in claims.items()},
        papers=declared.papers,
        costs=costs,
        largest=largest,
        different={other: list(_different(claims[other], claims[largest])) for other in others},
    )


def _different(some: dict[str, Verdict], largest: dict[str, Verdict]) -> Iterator[list[str]]:
    """Yield the cells of each claim that is reproduced at one scale and contradicted at the other."""
    for name, other in some.items():
        one = largest.get(name)
        if one and {one.outcome, other.outcome} == set(DECIDED):
            claim = one.claim
            reported = effect_text(claim.effect, one.reported)
            cells = [claim.statement, f"{claim.paper} {claim.place}", reported]
            for effect, outcome in ((part.effect, part.outcome) for part in (one, other)):
                cells += [with_interval(effect.kind, effect.value, effect.main_interval, "{} [{}]"), str(outcome)]
            yield cells


def in_words(claims: Claims, declared: Declarations) -> str:
    """Return the counts of the largest scale, without the line on excluded claims."""
    largest, *_ = claims.values()
    return claims_of_scale.in_words(list(largest.values()), declared).splitlines()[0]


def _training_cost(scale: str, rows: pd.DataFrame) -> str:
    known = rows[rows.hours != ""]
    took = f"The hours of {len(known)} of them are known."
    if len(known):
        hours, most = known.hours.astype(float).groupby(known.machine).sum(), max(known.peak_gb, key=float)
        took += f" They took {hours.sum():.1f} hours, with at most {most} GB of memory each: "
        took += ", ".join(f"{own:.1f} on {machine}" for machine, own in hours.items()) + "."
    dirty = rows.revision.str.endswith("-dirty").sum()
    took += f" {dirty} were trained by code with uncommitted changes (-dirty)." if dirty else ""
    file = f"[trained.csv](../scales/{scale}/trained.csv)"
    return f"{len(rows)} runs of the {scale} scale have been trained. {took} {file} has the md5 of the weights of each run."
