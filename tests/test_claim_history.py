"""A claim does not change unseen: what it tests is frozen, and every change since is a row of changes.csv."""

import csv

import pytest
from tiny.run_sheet import DECLARED

from raretokens import csv_files
from raretokens.claims.verdict import Outcome
from reproduction.papers.claim_history import CHANGES, COLUMNS, freeze, unrecorded
from reproduction.papers.declarations import Declarations

NAME = "rare-types-have-more-rare-neighbours-than-chance"
CLAIM = DECLARED.claims[NAME]
COMMAND = "`python -m reproduction.papers.claim_history >> data/paper/changes.csv` adds the rows; complete them"


@pytest.fixture
def declared(tmp_path) -> Declarations:
    """The claims, frozen as they are, without a change."""
    (tmp_path / CHANGES).write_text(csv_files.to_csv([], COLUMNS))
    freeze(DECLARED.replaced(folder=tmp_path))
    return DECLARED.replaced(folder=tmp_path)


def changed(declared: Declarations, **values) -> Declarations:
    return declared.replaced(claims=declared.claims | {NAME: CLAIM.replaced(**values)})


def record(declared: Declarations) -> None:
    with open(declared.folder / CHANGES, "a", newline="") as file:
        csv.DictWriter(file, COLUMNS).writerows(unrecorded(declared))


def fields(declared: Declarations) -> list[tuple[str, str, str, str]]:
    return [(row["claim"], row["field"], row["before"], row["after"]) for row in unrecorded(declared)]


def test_every_change_of_a_claim_is_recorded():
    rows = [f"{row['claim']}.{row['field']}: {row['before']!r} -> {row['after']!r}" for row in unrecorded(DECLARED)]
    assert not rows, f"not recorded in {CHANGES}: {rows}. {COMMAND}"


@pytest.mark.parametrize(
    ("values", "field", "before", "after"),
    [
        ({"than": 0.1}, "threshold", "above 0", "above 0.1"),
        ({"expect": "lower"}, "threshold", "above 0", "below 0"),
        ({"expect": "same", "margin": 0.5}, "threshold", "above 0", "equal to 0 within 0.5"),
        ({"effect": "ratio", "than": 0.0}, "effect", "difference", "ratio"),
        ({"kind": "conclusion"}, "kind", "control", "conclusion"),
        ({"section": "section 9"}, "place", "FRAGE section 3", "FRAGE section 9"),
        ({"statement": "Another"}, "statement", CLAIM.statement, "Another"),
        ({"by_construction": "reason"}, "by_construction", "", "yes"),
        ({"main": "key"}, "main", "", "yes"),
    ],
)
def test_a_changed_field_is_one_row(declared, values, field, before, after):
    assert fields(changed(declared, **values)) == [(NAME, field, before, after)]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("values", "field"),
    [({"runs": ["x"]}, "runs"), ({"data": True}, "runs"), ({"metric": "x"}, "metric"), ({"at": "last"}, "metric")],
)
def test_a_changed_side_is_one_row(declared, side, values, field):
    found = fields(changed(declared, **{side: getattr(CLAIM, side).replaced(**values)}))
    assert [row[:2] for row in found] == [(NAME, field)]


def test_a_changed_control_is_one_row(declared):
    name, claim = next((name, claim) for name, claim in declared.claims.items() if claim.control)
    without = declared.replaced(claims=declared.claims | {name: claim.replaced(control=None)})
    assert [(row[:2], row[3]) for row in fields(without)] == [((name, "control"), "")]


def test_a_changed_bound_of_a_precondition_changes_each_claim_that_needs_it(declared):
    need = "an-epoch"
    bound = declared.preconditions | {need: declared.preconditions[need].replaced(least=0.5)}
    expected = {(name, "needs") for name, claim in declared.claims.items() if need in claim.needs}
    assert {row[:2] for row in fields(declared.replaced(preconditions=bound))} == expected


@pytest.mark.parametrize(
    "values", [{"is_like_the_paper": False}, {"models": ["other"]}, {"own": "other-"}, {"data": {"copy": "x"}}]
)
def test_another_setting_is_one_row_of_its_task(declared, values):
    name, setting = next(
        (name, one) for name, one in declared.settings.items() if one.task == "nmt" and one.is_like_the_paper
    )
    other = declared.replaced(settings=declared.settings | {name: setting.replaced(**values)})
    assert [row[:2] for row in fields(other)] == [("settings of nmt", "settings")]


def test_explanations_may_change(declared):
    assert not unrecorded(changed(declared, why="Another reason.", but="Another caveat.", unreported="another"))


def test_new_and_removed_claims_are_changes(declared):
    others = {name: claim for name, claim in declared.claims.items() if name != NAME}
    assert fields(declared.replaced(claims=others)) == [(NAME, "claim", CLAIM.statement, "")]
    assert fields(declared.replaced(claims=declared.claims | {"new": CLAIM})) == [("new", "claim", "", CLAIM.statement)]


def test_a_row_records_one_state_of_a_claim_and_no_later_one(declared):
    record(changed(declared, than=0.1))
    assert not unrecorded(changed(declared, than=0.1))
    assert fields(changed(declared, than=0.2)) == [(NAME, "threshold", "above 0.1", "above 0.2")]
    assert fields(declared) == [(NAME, "threshold", "above 0.1", "above 0")]  # back to the frozen state
    both = changed(declared, than=0.1, statement="Another")
    assert fields(both) == [(NAME, "statement", CLAIM.statement, "Another")]


def test_what_is_frozen_again_is_the_state_from_which_changes_count(declared):
    record(changed(declared, than=0.1))
    freeze(changed(declared, than=0.1))
    assert not unrecorded(changed(declared, than=0.1))
    assert fields(declared) == [(NAME, "threshold", "above 0.1", "above 0")]


def test_a_recorded_removal_is_recorded(declared):
    others = declared.replaced(claims={name: claim for name, claim in declared.claims.items() if name != NAME})
    record(others)
    assert not unrecorded(others)


def test_verdicts_of_changes_are_verdicts():
    rows = csv_files.read_csv(DECLARED.folder / CHANGES).to_dict("records")
    assert {row[f"verdict_{when}"] for row in rows for when in ("before", "after")} <= {"", *Outcome}
