"""Claims: every one can be checked against print, and the verdict on scores, curves and data made by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from tiny.claims import AGAINST, SAME, claim, judged, three, world
from tiny.run_sheet import DECLARED, line

from raretokens.claims.command import OwnClaim
from raretokens.claims.command import judge as judge_own
from raretokens.claims.comparison import Comparison
from raretokens.claims.effect_text import few_seeds_text, named_intervals
from raretokens.claims.intervals import LEVEL, bootstrap_interval, paired_bootstrap, student
from raretokens.claims.item_scores import RunScores, gather
from raretokens.errors import UserError
from reproduction.papers.claim import Claim
from reproduction.papers.load import load_declarations
from reproduction.papers.task_scores import TaskScores
from reproduction.papers.verdicts import judge

ROOT = Path(__file__).parents[1]
PRINTED = ROOT / "data/paper"


def test_every_claim_has_its_printed_effect_or_says_why_not():
    empty = TaskScores({}, task="lm", folder=Path("nowhere"))
    assert len(DECLARED.claims) >= 40
    for name, declared in DECLARED.claims.items():
        verdict = judge(name, declared, empty, DECLARED)  # raises where a reported reference does not exist
        assert verdict.outcome == "not run", name
        if verdict.reported is not None:  # and the papers support what they conclude, the reported control taken away
            assert lies(declared, verdict.reported), name
        else:
            assert declared.unreported, name


def lies(declared: Claim, effect: float) -> bool:
    """Whether an effect is where the claim expects it."""
    low, high = declared.margins
    return {"lower": effect < low, "higher": effect > high, "same": low <= effect <= high}[declared.expect]


def test_both_printed_and_unprinted_or_a_value_with_two_sides_is_refused(tmp_path):
    for path in PRINTED.glob("*.yaml"):
        (tmp_path / path.name).write_text(path.read_text())
    tree = yaml.safe_load((PRINTED / "claims/AGG.yaml").read_text())
    (tmp_path / "claims").mkdir()
    for change, said in (
        ({"unreported": "drawn"}, "declare `reported` for each side, or the reason in `unreported`"),
        ({"effect": "value"}, "`effect: value` allows only `left`"),
    ):
        mistaken = {"agg-raises-isotropy": {**tree["agg-raises-isotropy"], **change}}
        (tmp_path / "claims/AGG.yaml").write_text(yaml.safe_dump(mistaken))
        with pytest.raises(UserError, match=rf"claims/AGG.yaml: agg-raises-isotropy: .*{said}"):
            load_declarations(tmp_path)
    (tmp_path / "claims/AGG.yaml").write_text(yaml.safe_dump({"a": tree["agg-raises-isotropy"]}))
    (tmp_path / "claims/FRAGE.yaml").write_text(yaml.safe_dump({"a": tree["agg-raises-isotropy"]}))
    with pytest.raises(UserError, match="FRAGE.yaml: a: another file has a claim of that name"):
        load_declarations(tmp_path)


@pytest.mark.parametrize(
    ("a", "b", "declared", "expected"),
    [
        ([0.9, 0.8, 0.85], [0.5, 0.5, 0.5], AGAINST, "reproduced"),
        ([0.5, 0.5, 0.5], [0.9, 0.8, 0.85], AGAINST, "contradicted"),
        ([0.9, 0.52, 0.51], [0.5, 0.5, 0.5], AGAINST, "inconclusive"),  # all seeds agree, the interval covers 0
        ([0.9, 0.9], [0.5, 0.5], AGAINST, "inconclusive"),  # two seeds without any variance have no interval
        ([0.56, 0.50, 0.53], [0.5, 0.51, 0.49], AGAINST, "inconclusive"),
        ([0.9], [0.5], AGAINST, "inconclusive"),
        ([0.51, 0.50, 0.52], [0.5, 0.5, 0.5], SAME, "reproduced"),
        ([0.71, 0.70, 0.72], [0.5, 0.5, 0.5], SAME, "contradicted"),
        ([0.56, 0.50, 0.53], [0.5, 0.5, 0.5], SAME, "inconclusive"),
    ],
)
def test_a_metric_of_the_embedding_matrix_is_decided_by_seeds_alone(tmp_path, a, b, declared, expected):
    verdict = judged(tmp_path, declared, three("a", a) | three("b", b))
    assert (verdict.outcome, verdict.is_of_few_seeds) == (expected, False)
    assert bool(verdict.reason) == (expected == "inconclusive")


@pytest.mark.parametrize(
    ("reported", "effect", "expect", "smaller"),
    [(0.5, "difference", "higher", True), (0.15, "difference", "higher", False), (-0.5, "difference", "lower", True),
     (-0.1, "difference", "lower", False), (2.0, "ratio", "higher", True), (0.9, "ratio", "lower", False)],
)  # fmt: skip
def test_what_decides_nothing_says_where_no_interval_reaches_print(
    tmp_path, monkeypatch, reported, effect, expect, smaller
):
    """Differences of -0.17 to 0.2, ratios of 0.7 to 1.5, and the test set beside them."""
    monkeypatch.setattr("reproduction.papers.verdicts.reported_effect", lambda claim, declared: reported)
    values = three("a", [0.6, 0.4, 0.55]) | three("b", [0.5, 0.5, 0.5])
    declared = AGAINST.replaced(effect=effect, expect=expect, than=1.0 if effect == "ratio" else 0.0)
    verdict = judged(tmp_path, declared, values)
    assert (verdict.outcome, verdict.reported) == ("inconclusive", reported)
    assert verdict.reason.endswith("; the interval does not reach the reported effect") == smaller
    (tmp_path / "drawn").mkdir()
    sets = np.random.default_rng(0).normal(0, 1.0, 400)
    wide = {run: value + sets * run.startswith("a") for run, value in values.items()}
    assert judged(tmp_path / "drawn", declared, values, drawn=wide).reason == "the interval contains the threshold"


def test_where_the_baseline_has_no_variance_the_interval_is_student_s_of_the_paired_effects(tmp_path):
    verdict = judged(tmp_path, AGAINST, three("a", [0.9, 0.7, 0.8]) | {"b": 0.5, "b-2": 0.5, "b-3": 0.5})
    equal = student(0.1 / 3**0.5, 2).reach(LEVEL)  # half of the rows vary, and the median variance is not 0
    assert 0 < verdict.effect.seed_interval.high - 0.3 < 2 * equal
    alone = claim({"runs": ["a"], "metric": "isotropy.total"}, effect="value", than=0.5)
    (tmp_path / "alone").mkdir()
    verdict = judged(tmp_path / "alone", alone, three("a", [0.6, 0.9, 0.6]))
    reach = student(0.1, 2).reach(LEVEL)  # about the mean, which is not the median
    assert verdict.effect.seed_interval == pytest.approx((0.7 - reach, 0.7 + reach), abs=1e-6)


@pytest.mark.parametrize("declared", [AGAINST, SAME, AGAINST.replaced(expect="lower")])
@pytest.mark.parametrize(("a", "b", "others"), [(0.2, 7 / 15, {}), (0.25, 0.5, three("c", [0.2, 0.2, 0.4]))])
def test_an_interval_without_width_decides_nothing(tmp_path, declared, a, b, others):
    """As the time of a fall on a grid, equal in all three seeds. One row of three says nothing about the other two."""
    verdict = judged(tmp_path, declared, three("a", [a] * 3) | three("b", [b] * 3) | others)
    assert (verdict.outcome, verdict.p, verdict.q) == ("inconclusive", None, None)
    assert verdict.reason == "the effect is the same on every seed and resampled test set, so how much it varies is not known"


@pytest.mark.parametrize("case", range(40))
def test_the_claims_of_a_paper_and_of_the_command_are_judged_alike(tmp_path, case):
    """Systems a and b on a coarse grid, so that effects are often equal; with one to four seeds, and with items or without."""
    random = np.random.default_rng(case)
    kind, expect = (random.choice(words) for words in (["ratio", "difference"], ["lower", "higher", "same"]))
    seeds, has_items = int(random.integers(1, 5)), bool(random.integers(2))
    spread = random.choice([0.0, 0.1, 0.4])
    means = {name: 2 + random.integers(4) / 5 + spread * random.integers(-1, 2, seeds) for name in "ab"}
    items = np.arange(500) / 500 * has_items
    numbered = [(name, seed, mean) for name, row in means.items() for seed, mean in enumerate(row, 1)]
    columns = {(name, seed): mean + items * random.choice([0, 1]) for name, seed, mean in numbered}
    scores = {key: column.tolist() if has_items else column[0] for key, column in columns.items()}
    runs = (RunScores(system=name, seed=seed, metrics={"isotropy.total": column}) for (name, seed), column in scores.items())
    given = gather(("scores.json", run) for run in runs)
    margin = 0.1 if expect == "same" else None
    own = OwnClaim(statement="s", metric="isotropy.total", left="a", right="b", effect=kind, expect=expect, margin=margin)
    (tmp_path / "own.yaml").write_text(json.dumps({"c": own.model_dump(exclude_defaults=True)}))
    (by_command,) = judge_own(tmp_path / "own.yaml", given)
    values = {run.replace("@", "-"): given.number(run, "isotropy.total") for run in given.columns}
    drawn = {run.replace("@", "-"): given.bootstrap(run, "isotropy.total") for run in given.columns} if has_items else None
    of_paper = judged(tmp_path, AGAINST.replaced(effect=kind, expect=expect, margin=margin), values, drawn=drawn)
    assert (of_paper.outcome, of_paper.reason) == (by_command.outcome, by_command.reason)
    assert of_paper.p == (None if by_command.p is None else pytest.approx(by_command.p, rel=1e-6, abs=1e-12))
    assert of_paper.effect.interval == (by_command.effect.interval and pytest.approx(by_command.effect.interval))


TO_MLE = claim({"runs": ["a"], "metric": "isotropy.total"}, {"runs": ["mle"], "metric": "isotropy.total"})
LENDERS = three("mle", [5.0, 5.1, 4.9]) | three("c", [5.3, 5.5, 5.4]) | three("d", [4.0, 4.1, 4.02])


@pytest.mark.parametrize(
    ("shift", "expected", "one_seed"),
    [
        (0.0, "inconclusive", False),
        (0.1, "inconclusive", False),
        (0.9, "reproduced", True),
        (-0.9, "contradicted", True),
    ],
)
def test_one_seed_is_decided_by_its_test_set_and_by_how_much_the_seeds_of_other_rows_differ(
    tmp_path, shift, expected, one_seed
):
    random = np.random.default_rng(0)
    shared, own = random.normal(0, 1.0, 400), random.normal(0, 0.01, (2, 400))  # what both runs share cancels out
    drawn = {"a": 5.0 + shift + shared + own[0], "mle": 5.0 + shared + own[1]}
    verdict = judged(tmp_path, TO_MLE, LENDERS | {"a": 5.0 + shift}, drawn=drawn)
    assert (verdict.outcome, verdict.is_of_few_seeds) == (expected, one_seed)
    test, seeds, total = verdict.effect.test_interval, verdict.effect.seed_interval, verdict.effect.interval
    assert test.high - test.low == pytest.approx(2 * 1.96 * 0.01 * 2**0.5, rel=0.1)
    assert total.high - total.low == pytest.approx(seeds.high - seeds.low, rel=0.02), (
        "the test set moves hardly anything"
    )
    assert (few_seeds_text(verdict) == "one seed") == one_seed
    assert list(named_intervals(verdict.effect)) == ["total", "pooled seed variance", "test set"]
    assert (verdict.p < 0.05) == (expected != "inconclusive")


def test_seeds_that_move_all_rows_alike_cancel_and_others_do_not(tmp_path):
    """Two runs that differ by 1; the seeds of all rows differ by 10, alike or each in its own way."""
    random, rows = np.random.default_rng(0), "abcdefgh"
    shifts = {"alike": np.tile(random.normal(0, 10, 3), (8, 1)), "unlike": random.normal(0, 10, (8, 3))}
    for name, expected in (("alike", "reproduced"), ("unlike", "inconclusive")):
        numbers = shifts[name] + random.normal(0, 0.1, (8, 3)) + np.array([1.0, *[0.0] * 7])[:, None]
        (tmp_path / name).mkdir()
        values = {run: value for row, own in zip(rows, numbers, strict=True) for run, value in three(row, own).items()}
        assert judged(tmp_path / name, AGAINST, values).outcome == expected, name


def test_what_resamples_move_each_seed_alone_is_not_counted_twice(tmp_path):
    """Three seeds that a test set moves by 1 each, and alike by 0.5: only the second is added to the variance of seeds."""
    random = np.random.default_rng(0)
    shared, own = random.normal(0, 0.5, 4000), random.normal(0, 1.0, (3, 4000))
    values = three("a", [5.0, 6.0, 7.0]) | three("b", [0.0, 0.0, 0.0])
    drawn = {run: values[run] + shared + one for run, one in zip(("a", "a-2", "a-3"), own, strict=True)}
    drawn |= {run: np.zeros(4000) for run in ("b", "b-2", "b-3")}
    verdict = judged(tmp_path, AGAINST, values, drawn=drawn)
    scores = TaskScores({run: line(run[0], seed=int(run[2:] or 1)) for run in values}, task="lm", folder=tmp_path / "lm")
    comparison = Comparison.of_claim(AGAINST, scores)
    assert comparison.test_variance**0.5 == pytest.approx(0.5, rel=0.05)
    assert comparison.test_interval == pytest.approx(bootstrap_interval(6.0, shared + own.mean(axis=0)))  # of the mean seed
    assert verdict.effect.interval == comparison.effect.interval


def test_one_seed_decides_nothing_where_no_row_says_how_much_seeds_differ(tmp_path):
    drawn = {
        run: value + np.random.default_rng(0).normal(0, 0.01, 400) for run, value in {"a": 9.0, "mle": 5.0}.items()
    }
    verdict = judged(tmp_path, TO_MLE, {"a": 9.0, "mle": 5.0}, drawn=drawn)
    assert verdict.effect.test_interval.low > 3 and (verdict.outcome, verdict.effect.seed_interval) == (
        "inconclusive",
        None,
    )
    assert verdict.reason == "only 1 of 3 seeds were run, and no other runs of this model have a seed variance to pool"


@pytest.mark.parametrize("change", [{"model": "big"}, {"tokens": "words"}, {"reverse": True}])
def test_rows_of_another_model_lend_nothing(tmp_path, change):
    scores = world(tmp_path, {run: {"metrics": {"isotropy": {"total": value}}} for run, value in LENDERS.items()}
                   | {run: {"metrics": {"isotropy": {"total": value}}} for run, value in {"a": 9.0, "b": 5.0}.items()},
                   {run: int(run[-1]) for run in LENDERS if "-" in run})  # fmt: skip
    declared = claim(TO_MLE.left.model_dump(), {"runs": ["b"], "metric": "isotropy.total"})
    assert judge("c", declared, scores, DECLARED).outcome == "reproduced"
    del scores.repetitions
    scores.lines |= {run: scores.lines[run].replaced(**change) for run in ("a", "b")}
    assert judge("c", declared, scores, DECLARED).reason.endswith(
        "no other runs of this model have a seed variance to pool"
    )


@pytest.mark.parametrize(("first", "second", "expected"), [(-1.0, 0.6, "inconclusive"), (-1.0, -0.9, "contradicted")])
def test_two_seeds_that_disagree_decide_nothing(tmp_path, first, second, expected):
    """However alike those of six other rows are: its own two lend as well."""
    lenders = {run: value for name in "cdefgh" for run, value in three(name, [5.3, 5.3, 5.31]).items()}
    lenders |= three("mle", [5.0, 5.0, 5.0])
    verdict = judged(tmp_path, TO_MLE, lenders | {"a": 5.0 + first, "a-2": 5.0 + second})
    assert verdict.outcome == expected


def test_a_draw_without_a_number_or_a_side_that_was_not_drawn_decides_nothing(tmp_path):
    values = three("a", [0.9, 0.8, 0.85]) | three("b", [0.5, 0.5, 0.5])
    drawn = {run: np.full(400, value) for run, value in values.items()}
    broken = {**drawn, "a-2": np.full(400, np.nan)}
    lacking = {run: column for run, column in drawn.items() if run != "b-3"}
    for name, (columns, expected) in {
        "whole": (drawn, "reproduced"),
        "nan": (broken, "inconclusive"),
        "none": (lacking, "inconclusive"),
    }.items():
        (tmp_path / name).mkdir()
        assert judged(tmp_path / name, AGAINST, values, drawn=columns).outcome == expected


def test_a_control_s_effect_is_taken_away(tmp_path):
    control = {
        "left": {"runs": ["c"], "metric": "isotropy.total"},
        "right": {"runs": ["d"], "metric": "isotropy.total"},
    }
    declared = Claim.model_validate({**AGAINST.model_dump(), "control": control})
    values = three("a", [0.9, 0.8, 0.85]) | three("b", [0.5, 0.5, 0.5]) | three("c", [0.9, 0.9, 0.9])
    verdict = judged(tmp_path, declared, values | three("d", [0.3, 0.41, 0.35]))
    assert (verdict.outcome, round(verdict.effect.value, 4)) == ("contradicted", -0.1967)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        ("first", 0.9),
        ("last", 0.3),
        ("lowest", 0.2),
        ("highest", 0.95),
        ("until", 0.95),
        (0.1, 0.85),
        (0.75, 0.2),
        (0.45, 0.95),
        (0.7, 0.2),
        (0.8, 0.2),
        (0.9, 0.3),
    ],
)
@pytest.mark.parametrize("until", [50, 120, None])
def test_a_side_may_be_read_off_a_curve(tmp_path, at, value, until):
    curve = {0: 0.9, 20: 0.85, 50: 0.95, 150: 0.2, 200: 0.3}
    text = "".join(f"isotropy,rare,{x},{y}\nisotropy,freq,{x},0.99\n" for x, y in curve.items())
    scores = world(tmp_path, {"mle": {"options": [["until", until]] if until else []}}, curves=text)
    declared = claim({"runs": ["mle"], "metric": "isotropy.rare", "at": at}, effect="value", than=0.5)
    verdict = judge("c", declared, scores, DECLARED)
    if at == "until" and until is None:  # no rows are unfrozen
        assert verdict.outcome == "not run"
        return
    assert (verdict.effect.value, verdict.outcome) == (value, "inconclusive")
    other = claim({"runs": ["mle"], "metric": "inner_product.rare", "at": at}, effect="value", than=0.5)
    assert judge("c", other, scores, DECLARED).outcome == "not run"


def test_every_seed_is_compared_with_what_needs_no_model(tmp_path):
    values = {"agg": 345, "agg-2": 299, "human": 300}
    scores = world(tmp_path, {n: {"metrics": {"uniq": {"rare": v}}} for n, v in values.items()}, {"agg-2": 2})
    human = json.loads((tmp_path / "lm/human.json").read_text())
    (tmp_path / "lm/human.json").write_text(json.dumps({**human, "seed": None}))
    del scores.lines["human"]
    verdict = judge("c", DECLARED.claims["agg-surpasses-human-rare-types"].replaced(needs=[]), scores, DECLARED)
    assert (verdict.outcome, verdict.effect.value, verdict.effect.seeds, verdict.reported) == (
        "inconclusive",
        22,
        2,
        45,
    )


def test_rare_words_among_the_neighbours_are_counted(tmp_path):
    listed = [["one", [["a", 0.9, "rare"], ["b", 0.8, "freq"]]], ["two", [["c", 0.7, "rare"], ["d", 0.6, "rare"]]]]
    scores = world(tmp_path, {"mle": {"neighbours": listed}, "agg": {"neighbours": [["one", []]]}})
    declared = claim({"runs": ["mle"], "metric": "neighbours.rare"}, effect="value", than=0.5)
    assert judge("c", declared, scores, DECLARED).effect.value == 0.75
    frees = DECLARED.claims["agg-frees-neighbours-from-frequency"]
    none = judge("c", frees.replaced(needs=[]), scores, DECLARED)
    assert (none.outcome, none.reason) == ("not run", "agg has no neighbours.rare")
    many = [[f"query {number}", listed[0][1]] for number in range(20)]
    for number, expected in ((19, "not testable"), (20, "inconclusive")):
        (tmp_path / str(number)).mkdir()
        scores = world(tmp_path / str(number), {run: {"neighbours": many[:number]} for run in ("agg", "mle")})
        assert judge("c", frees.replaced(needs=["twenty-queries"]), scores, DECLARED).outcome == expected


def test_a_printed_side_may_be_the_mean_of_its_groups():
    verdict = judge("c", DECLARED.claims["agg-diversifies-continuations"], TaskScores({}, task="lm", folder=Path("no")), DECLARED)
    assert verdict.reported == 27.75  # (43 + 55 + 63 + 52) / 4 less (22 + 19 + 37 + 24) / 4


def test_nothing_over_nothing_is_no_effect(tmp_path):
    scores = world(tmp_path, {name: {"metrics": {"uniq": {"rare": 0}}} for name in ("agg", "mle")})
    declared = DECLARED.claims["agg-predicts-more-rare-types"].replaced(needs=[])
    for kind, ours in (("difference", 0), ("ratio", 1)):
        verdict = judge("c", declared.model_copy(update={"effect": kind}), scores, DECLARED)
        assert (verdict.outcome, verdict.effect.value, verdict.effect.left) == ("inconclusive", ours, 0)


@pytest.mark.parametrize(("effect", "drawn"), [(np.inf, [1.0, 2.0]), (5.0, [1.0, np.nan])])
def test_the_interval_of_what_is_not_finite_is_unbounded(effect, drawn):
    assert bootstrap_interval(effect, np.array(drawn)) == (-np.inf, np.inf)


@pytest.mark.parametrize(("delta", "p"), [(0.25, 1.0), (-0.75, 0.5), (1.25, 2 / 65)])
def test_resamples_without_a_difference_are_on_both_sides(delta, p):
    """Of 64 resamples 48 are lower by 1 than the rest, about their mean and not their median."""
    found = paired_bootstrap(delta, np.repeat([0.0, 1.0], [48, 16]))
    assert (found["p"], found["low"], found["high"]) == (p, delta - 0.25, delta + 0.75)
