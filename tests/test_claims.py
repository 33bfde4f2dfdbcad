"""Claims: every one can be checked against print, and the verdict on scores, curves and data made by hand."""

import json
from pathlib import Path

import pytest
import yaml
from tiny.run_sheet import DECLARED, line

from raretokens.errors import UserError
from raretokens.reporting.claims.claims_markdown import to_markdown
from raretokens.reporting.claims.judging import judge
from raretokens.reporting.declarations import reading
from raretokens.reporting.declarations.claim import Claim
from raretokens.reporting.declarations.metric import Tolerance
from raretokens.reporting.scored import Scores

ROOT = Path(__file__).parents[1]
PRINTED = ROOT / "data/paper"


def world(folder: Path, scores: dict[str, dict], seeds: dict[str, int] | None = None, curves: str = "") -> Scores:
    """Language-model runs with these metrics; `a-2` is `a` with another seed. curves: the points of every run."""
    (folder / "lm").mkdir()
    seeds = seeds or {}
    for name, score in scores.items():
        text = json.dumps({"seed": seeds.get(name, 1), **score})
        (folder / f"lm/{name}.json").write_text(text)
        (folder / f"lm/{name}.csv").write_text(f"series,group,x,y\n{curves}")
    sheet = {name: line(name.removesuffix("-2"), seed=seeds.get(name, 1)) for name in scores}
    return Scores("lm", sheet, folder / "lm")


def claim(left: dict, right: dict | None = None, **more) -> Claim:
    base = {"place": "table 3", "statement": "s", "task": "lm", "effect": "difference", "expect": "higher"}
    return Claim(left=left, right=right, **{**base, "unprinted": "drawn", **more})


def test_every_claim_has_its_printed_effect_or_says_why_not():
    empty = Scores("lm", {}, Path("nowhere"))
    assert len(DECLARED.claims) >= 40
    for name, declared in DECLARED.claims.items():
        verdict = judge(name, declared, empty, PRINTED)  # raises where a printed reference does not exist
        assert verdict.verdict == "not run" and verdict.note != verdict.printed, name
        if verdict.printed:  # and the papers support what they conclude
            assert (float(verdict.printed) < declared.threshold) == (declared.expect == "lower"), name


def test_both_printed_and_unprinted_or_a_value_with_two_sides_is_refused(tmp_path):
    for path in PRINTED.glob("*.yaml"):
        (tmp_path / path.name).write_text(path.read_text())
    tree = yaml.safe_load((PRINTED / "claims/AGG.yaml").read_text())
    (tmp_path / "claims").mkdir()
    for change, said in (
        ({"unprinted": "drawn"}, "declare what is printed for each side, or in `unprinted` why it is not"),
        ({"effect": "value"}, "a value stands alone"),
    ):
        mistaken = {"agg-raises-isotropy": {**tree["agg-raises-isotropy"], **change}}
        (tmp_path / "claims/AGG.yaml").write_text(yaml.safe_dump(mistaken))
        with pytest.raises(UserError, match=rf"claims/AGG.yaml: agg-raises-isotropy: .*{said}"):
            reading.read(tmp_path)
    (tmp_path / "claims/AGG.yaml").write_text(yaml.safe_dump({"a": tree["agg-raises-isotropy"]}))
    (tmp_path / "claims/FRAGE.yaml").write_text(yaml.safe_dump({"a": tree["agg-raises-isotropy"]}))
    with pytest.raises(UserError, match="FRAGE.yaml: a: another file has a claim of that name"):
        reading.read(tmp_path)


@pytest.mark.parametrize(
    ("expect", "than", "expected"),
    [("lower", None, "does not hold"), ("higher", None, "holds"), ("higher", 3.7, "undecided")],
)
def test_a_claim_is_judged_seed_by_seed(tmp_path, expect, than, expected):
    values = {"a": 40.0, "a-2": 35.0, "b": 10.0, "b-2": 10.0}
    scores = {name: {"metrics": {"ppl": {"rare": value}}} for name, value in values.items()}
    side = {"metric": "ppl.rare"}
    declared = claim(
        {**side, "runs": ["a"], "printed": ["agg_table3", "AGG", "PPL", "Rare"]},
        {**side, "runs": ["b"], "printed": ["agg_table3", "MLE", "PPL", "Rare"]},
        effect="ratio",
        expect=expect,
        than=than,
        unprinted=None,
    )
    verdict = judge("c", declared, world(tmp_path, scores, {"a-2": 2, "b-2": 2}), PRINTED)
    assert (verdict.verdict, verdict.ours, verdict.lowest, verdict.highest, verdict.seeds) == (
        expected,
        "3.75",
        "3.5",
        "4",
        "2",
    )
    assert verdict.printed == "0.1719"  # 75.39 / 438.67


@pytest.mark.parametrize(("effect", "expected"), [(0.02, "undecided"), (0.05, "holds"), (-0.05, "does not hold")])
def test_one_seed_within_the_noise_decides_nothing(tmp_path, effect, expected):
    scores = {n: {"metrics": {"isotropy": {"total": 0.5 + add}}} for n, add in (("mle", 0.0), ("agg", effect))}
    noise = Tolerance(abs=0.03)
    verdict = judge("c", DECLARED.claims["agg-raises-isotropy"], world(tmp_path, scores), PRINTED, noise)
    assert verdict.verdict == expected
    assert f"**{expected}** (one seed)" in to_markdown([verdict], DECLARED)


@pytest.mark.parametrize(
    ("at", "value"),
    [("first", 0.9), ("last", 0.3), ("lowest", 0.2), ("highest", 0.95), ("until", 0.95), (0.1, 0.85), (0.75, 0.2)],
)
def test_a_side_may_be_read_off_a_curve(tmp_path, at, value):
    curve = {0: 0.9, 20: 0.85, 50: 0.95, 150: 0.2, 200: 0.3}
    text = "".join(f"isotropy,rare,{x},{y}\nisotropy,freq,{x},0.99\n" for x, y in curve.items())
    scores = world(tmp_path, {"mle": {"options": [["until", 60]]}}, curves=text)
    declared = claim({"runs": ["mle"], "metric": "isotropy.rare", "at": at}, effect="value", than=0.5)
    verdict = judge("c", declared, scores, PRINTED)
    assert (float(verdict.ours), verdict.verdict) == (value, "holds" if value > 0.5 else "does not hold")
    other = claim({"runs": ["mle"], "metric": "inner_product.rare", "at": at}, effect="value", than=0.5)
    assert judge("c", other, scores, PRINTED).verdict == "not run"


def test_curves_without_an_unfreezing_have_no_value_there(tmp_path):
    scores = world(tmp_path, {"mle": {"options": []}}, curves="isotropy,rare,0,0.9\n")
    declared = claim({"runs": ["mle"], "metric": "isotropy.rare", "at": "until"}, effect="value", than=0.5)
    assert judge("c", declared, scores, PRINTED).verdict == "not run"


def test_every_seed_is_compared_with_what_needs_no_model(tmp_path):
    values = {"agg": 345, "agg-2": 299, "human": 300}
    scores = world(tmp_path, {n: {"metrics": {"uniq": {"rare": v}}} for n, v in values.items()}, {"agg-2": 2})
    human = json.loads((tmp_path / "lm/human.json").read_text())
    (tmp_path / "lm/human.json").write_text(json.dumps({**human, "seed": None}))
    del scores.lines["human"]
    verdict = judge("c", DECLARED.claims["agg-surpasses-human-rare-types"], scores, PRINTED)
    assert (verdict.verdict, verdict.lowest, verdict.highest, verdict.seeds, verdict.printed) == (
        "undecided",
        "-1",
        "45",
        "2",
        "45",
    )


def test_rare_words_among_the_neighbours_are_counted(tmp_path):
    listed = [["one", [["a", 0.9, "rare"], ["b", 0.8, "freq"]]], ["two", [["c", 0.7, "rare"], ["d", 0.6, "rare"]]]]
    scores = world(tmp_path, {"mle": {"neighbours": listed}, "agg": {"neighbours": [["one", []]]}})
    declared = claim({"runs": ["mle"], "metric": "neighbours.rare"}, effect="value", than=0.5)
    assert judge("c", declared, scores, PRINTED).ours == "0.75"
    assert judge("c", DECLARED.claims["agg-frees-neighbours-from-frequency"], scores, PRINTED).verdict == "not run"


def test_a_printed_side_may_be_the_mean_of_its_groups():
    verdict = judge("c", DECLARED.claims["agg-diversifies-continuations"], Scores("lm", {}, Path("no")), PRINTED)
    assert verdict.printed == "27.75"  # (43 + 55 + 63 + 52) / 4 less (22 + 19 + 37 + 24) / 4


def test_nothing_over_nothing_is_no_effect(tmp_path):
    scores = world(tmp_path, {name: {"metrics": {"uniq": {"rare": 0}}} for name in ("agg", "mle")})
    declared = DECLARED.claims["agg-predicts-more-rare-types"]
    for effect, ours in (("difference", "0"), ("ratio", "1")):
        verdict = judge("c", declared.model_copy(update={"effect": effect}), scores, PRINTED)
        assert (verdict.verdict, verdict.ours, verdict.left) == ("does not hold", ours, "0")


def test_the_page_counts_verdicts_and_goes_paper_by_paper():
    empty = Scores("lm", {}, Path("nowhere"))
    text = to_markdown([judge(n, c, empty, PRINTED) for n, c in DECLARED.claims.items()], DECLARED)
    assert f"\n{len(DECLARED.claims)} claims: {len(DECLARED.claims)} not run.\n" in text
    headings = [line for line in text.split("\n") if line.startswith("## ")]
    assert headings == ["## AGG", "## AGPS", "## CosReg", "## FRAGE"]
    assert "| *drawn in figure 2* |" in text
