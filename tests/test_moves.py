"""How far a cell, a curve and a text of the reports may move."""

import pytest
from tiny.run_sheet import DECLARED

from raretokens.claims.verdict import NO_POOL
from reproduction.papers.declarations import ANY, EXACT, Tolerance
from reproduction.report.moves import claim_moves, figure_moves, number_moves


def test_a_share_is_of_the_older_number_and_the_wider_bound_counts():
    share = Tolerance(rel=0.1)
    assert [share.allows(*pair) for pair in ((100, 110), (100, 110.5), (110.5, 100), (-100, -110))] == [
        True, False, True, True
    ]  # fmt: skip
    both = Tolerance(rel=0.1, abs=2.0)
    assert [both.allows(*pair) for pair in ((10, 12), (10, 12.1), (100, 110), (100, 110.1))] == [True, False] * 2
    assert EXACT.allows(1, 1) and not EXACT.allows(1, 1 + 1e-9)


@pytest.mark.parametrize(
    ("metric", "task", "before", "now", "out"),
    [
        ("spearman.rw", "skipgram", "6.30", "11.00", False),  # few of its pairs are known
        ("spearman.rw", "skipgram", "6.30", "15.00", True),
        ("spearman.rw", "lm", "6.30", "11.00", True),
        ("ppl.total", "recurrent", "498.8", "490.0", False),
        ("ppl.total", "recurrent", "498.8", "474.5", True),
        ("ppl.total", "lm", "0.50 / —", "0.505 / —", False),  # several numbers in a cell
        ("ppl.total", "lm", "0.50 / 1.20", "0.505 / 1.50", True),
        ("ppl.total", "lm", "0.50 / 1.20", "0.50 / —", True),
    ],
)
def test_how_far_a_cell_may_move_is_its_task_s(metric, task, before, now, out):
    drift = DECLARED.metric(metric).drift_of(task)
    (move,) = number_moves("tables/x.csv", "row", "column", before, now, drift)
    assert move.out == out


def test_a_curve_is_compared_point_by_point_and_a_cloud_as_a_whole():
    """Reversed, a curve has the same values at other places; the points of a cloud have no order."""
    before = [*enumerate(range(1000, 900, -1))]
    turned = [(x, y) for (x, _), (_, y) in zip(before, reversed(before), strict=True)]
    cloud = [(x % 7, y) for x, y in before]
    shifts = [
        list(figure_moves("figures/agg-figure-4.csv", points(old), points(new), DECLARED))
        for old, new in ((before, turned), (cloud, cloud[::-1]))
    ]
    assert [[(move.column, move.after, move.out) for move in moves] for moves in shifts] == [
        [("mean shift / range", "0.51", True)],
        [],
    ]


def points(pairs: list[tuple[int, int]]) -> str:
    return "panel,run,group,x,y\n" + "".join(f"AGG,AGG,,{x},{y}\n" for x, y in pairs)


@pytest.mark.parametrize("place", ["panel", "figure"])
@pytest.mark.parametrize(("task", "out"), [("skipgram", False), ("lm", True)])
def test_how_far_a_figure_s_point_may_move_is_its_task_s(place, task, out):
    """A panel's task is its own, where it has one, and its figure's otherwise."""
    figure = DECLARED.figures["agg-figure-5"]
    changes = {"metric": "spearman.rw", "title": "x", "task": task if place == "panel" else None}
    panel = figure.panels[0].model_copy(update=changes)
    figure = figure.model_copy(update={"panels": [panel], "task": task if place == "figure" else "nmt"})
    declared = DECLARED.model_copy(update={"figures": {"agg-figure-5": figure}})
    before, now = ("panel,run,group,x,y\nx,a,,1," + y for y in ("6.30\n", "11.00\n"))
    (move,) = figure_moves("figures/agg-figure-5.csv", before, now, declared)
    assert move.out == out


@pytest.mark.parametrize(("before", "now", "out"), [("a, b", "a, c", False), ("a, b", "", True), ("", "a, b", True)])
def test_a_text_that_may_change_may_not_become_empty(before, now, out):
    (move,) = number_moves("tables/x.csv", "row", "column", before, now, ANY)
    assert move.out is out


@pytest.mark.parametrize(
    ("metric", "other", "reason", "out"),
    [
        ("ppl.rare", "0.31", NO_POOL, False),
        ("ppl.total", "0.31", NO_POOL, True),
        ("ppl.rare", "0.30", NO_POOL, True),
        ("ppl.rare", "0.31", "the interval contains the threshold", True),
    ],
)
def test_a_verdict_goes_with_the_seed_variance_that_it_borrows(metric, other, reason, out):
    """Of two seeds with equal numbers, only other lines say how far seeds move a number; on another processor they may not."""
    line = "claim,metric,verdict,left,right,measured,low,high,reason\nagg-lowers-rare-perplexity,ppl.rare,"
    rest = f"\nfreeze-raises-rare-perplexity,{metric},reproduced,0.8,0.5,"
    before = f"{line}reproduced,9,10,-1,-1.2,-0.8,{rest}0.30,0.2,0.4,\n"
    now = f"{line}inconclusive,9,10,-1,,,{reason}{rest}{other},0.2,0.4,\n"
    moves = [move for move in claim_moves("claims.csv", before, now, DECLARED) if move.row == "agg-lowers-rare-perplexity"]
    assert {move.column: move.out for move in moves}["verdict"] is out
    assert any(move.out for move in moves) is out
