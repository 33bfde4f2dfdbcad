"""What each claim tests, frozen, and the changes since: data/paper/frozen-claims.csv and data/paper/changes.csv.

The settings of a task are frozen under a name of their own, because a change of them concerns all claims of the task.

`python -m reproduction.papers.claim_history` prints the rows that changes.csv lacks. With `--freeze` it freezes all claims, and
the rows of changes.csv lose their digests, because the frozen claims contain them.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from datetime import date
from operator import itemgetter

from raretokens import csv_files
from raretokens.errors import exit_on_error
from reproduction.papers.claim import Claim, ClaimSide, Precondition
from reproduction.papers.declarations import Declarations
from reproduction.papers.load import load_declarations
from reproduction.paths import PAPERS

Fields = dict[str, str]  # what a claim tests, as text by field; empty for a claim that does not exist
FROZEN, CHANGES = "frozen-claims.csv", "changes.csv"
MEASURED = ["verdict_before", "verdict_after", "moved", "reason"]  # of a change, filled in by hand
COLUMNS = ["claim", "date", "commit", "field", "before", "after", *MEASURED, "digest"]
NAMING = {"models", "replaces", "own", "data"}  # of a setting: which runs it has
EXPECTED = {"higher": "above", "lower": "below", "same": "equal to"}
TESTED: dict[str, Callable[[Claim], str]] = {
    "place": lambda claim: f"{claim.paper} {claim.replaced(kind='conclusion').place}",
    "kind": lambda claim: claim.kind,
    "statement": lambda claim: claim.statement,
    "runs": lambda claim: " / ".join(map(_runs, claim.sides.values())),
    "metric": lambda claim: " / ".join(map(_metric, claim.sides.values())),
    "reported": lambda claim: " / ".join(" > ".join(side.reported) for side in claim.sides.values() if side.reported),
    "control": lambda claim: " / ".join(f"{_runs(side)} {_metric(side)}" for side in _controls(claim)),
    "effect": lambda claim: claim.effect,
    "threshold": lambda claim: f"{EXPECTED[claim.expect]} {claim.threshold:g}{_within(claim.margin)}",
    "by_construction": lambda claim: "yes" * bool(claim.by_construction),
    "hardly_fails": lambda claim: "yes" * bool(claim.hardly_fails),
    "main": lambda claim: "yes" * bool(claim.main),
}


def _runs(side: ClaimSide) -> str:
    return " or ".join(side.runs) + " (data)" * side.data


def _metric(side: ClaimSide) -> str:
    return side.metric if side.at is None else f"{side.metric} at {side.at}"


def _within(margin: float | None) -> str:
    return "" if margin is None else f" within {margin:g}"


def _controls(claim: Claim) -> Iterable[ClaimSide]:
    return (side for name, side in claim.all_sides.items() if name not in claim.sides)


def _condition(name: str, condition: Precondition) -> str:
    bounds = condition.model_dump(exclude={"reason"}, exclude_defaults=True)
    return f"{name} {json.dumps(bounds)}".replace('"', "")


def _settings(declared: Declarations, task: str) -> str:
    """Return the settings of a task in the order in which a claim is judged in one of them, with what names their runs."""
    named = [(not one.is_like_the_paper, name, one) for name, one in declared.settings.items() if one.task == task]
    return "; ".join(
        f"{name}{' (not like the paper)' * last} {json.dumps(one.model_dump(include=NAMING, exclude_defaults=True))}"
        for last, name, one in sorted(named, key=itemgetter(0))
    ).replace('"', "")


def fields_of(declared: Declarations) -> dict[str, Fields]:
    """Return what each claim tests. Its explanations (`why`, `but`, `unreported`) are left out."""
    claims = {
        name: {field: text(claim) for field, text in TESTED.items()}
        | {"needs": "; ".join(_condition(need, declared.preconditions[need]) for need in claim.needs)}
        for name, claim in declared.claims.items()
    }
    tasks = sorted({setting.task for setting in declared.settings.values()})
    return claims | {f"settings of {task}": {"settings": _settings(declared, task)} for task in tasks}


def changes_of_claims(declared: Declarations) -> dict[str, list[Fields]]:
    """Return claim -> its rows of changes.csv, the oldest first."""
    found: dict[str, list[Fields]] = {}
    for row in csv_files.read_csv(declared.folder / CHANGES).to_dict("records"):
        found.setdefault(row["claim"], []).append(row)
    return found


def digest(fields: Fields) -> str:
    """Return 16 hexadecimal digits of the sha256 of the fields that have a text; empty without fields."""
    used = {field: text for field, text in sorted(fields.items()) if text}
    return hashlib.sha256(json.dumps(used).encode()).hexdigest()[:16] if used else ""


def unrecorded(declared: Declarations) -> list[Fields]:
    """Return the rows that changes.csv lacks, for each claim that is not as its last row, or else the frozen claim, says."""
    last = {row.pop("claim"): row for row in csv_files.read_csv(declared.folder / FROZEN).to_dict("records")}
    for row in csv_files.read_csv(declared.folder / CHANGES).to_dict("records"):
        if row["field"] == "claim" and not row["after"]:
            last.pop(row["claim"], None)
        elif row["digest"]:
            last[row["claim"]] = last.get(row["claim"], {}) | {row["field"]: row["after"], "digest": row["digest"]}
    now, rows = fields_of(declared), []
    for name in sorted(last.keys() | now.keys()):
        before, after = last.get(name, {}), now.get(name, {})
        if digest(after) == before.get("digest", ""):
            continue
        shared = {"claim": name, "date": str(date.today()), "digest": digest(after)}
        if not (before and after):  # a claim that is new or removed has one row
            before, after = ({"claim": fields.get("statement", "")} for fields in (before, after))
        changed = [field for field in after if after[field] != before.get(field, "")]
        rows += [shared | {"field": field, "before": before.get(field, ""), "after": after[field]} for field in changed]
    return rows


def freeze(declared: Declarations) -> None:
    """Write frozen-claims.csv, and remove the digests of changes.csv."""
    rows = [{"claim": name, "digest": digest(fields)} | fields for name, fields in fields_of(declared).items()]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    (declared.folder / FROZEN).write_text(csv_files.to_csv(rows, columns), encoding="utf-8")
    changes = csv_files.read_csv(declared.folder / CHANGES).assign(digest="").to_dict("records")
    (declared.folder / CHANGES).write_text(csv_files.to_csv(changes, COLUMNS), encoding="utf-8")


@exit_on_error()
def main() -> None:
    declared = load_declarations(PAPERS)
    if sys.argv[1:] == ["--freeze"]:
        freeze(declared)
    else:
        print(csv_files.to_csv(unrecorded(declared), COLUMNS).partition("\n")[2], end="")


if __name__ == "__main__":
    main()
