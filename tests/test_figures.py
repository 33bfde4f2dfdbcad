"""Figures: those committed are those declared; drawn from points made by hand and from none."""

import json
import math
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Canvas
from tiny.run_sheet import DECLARED, committed, line

from raretokens.claims.intervals import Interval
from raretokens.claims.verdict import Outcome
from raretokens.figure_style import CURVES
from reproduction.papers.setting import TASKS
from reproduction.papers.table import Panel
from reproduction.papers.task_scores import TaskScores
from reproduction.pipeline.jobs import all_jobs
from reproduction.pipeline.parameters_file import load
from reproduction.report.build import points_in_setting
from reproduction.report.diff import figure_moves
from reproduction.report.figure_points import effect_points, figure_points
from reproduction.report.figures import draw, write_figure
from reproduction.report.forest import Row, draw_row, finish
from reproduction.tasks.evaluation.job_specs import ScoreJob

ROOT = Path(__file__).parents[1]
DATA = {"lm": "human", "nmt": "copy", "skipgram": "text"}  # the line of the text itself
GROUPS = ("freq", "med", "rare")
EARLY = (0, 20, 60, 200)
QUERIES = ("one", "two", "three")


def series(shift: float) -> list[tuple]:
    """All series that a run may have."""
    clouds = [
        "projection",
        "pca",
        *(f"{name}@{update}" for name in ("projection", "pca") for update in (200, 60, 20, 0)),
    ]
    rows = [
        (name, group, math.cos(i * i) + shift, math.sin(i * k) * (i % 7) + shift)
        for name in clouds
        for k, group in enumerate(GROUPS)
        for i in range(1, 100 if "@" in name else 200)
    ]
    rows += [
        (f"similarity:{query}", GROUPS[i // 200], 10 * i + 1, math.sin(i) / 2 + shift / 9)
        for query in QUERIES
        for i in range(600)
    ]
    rows += [("singular_values", "total", rank, 1 / rank) for rank in range(1, 129)]
    rows += [("rank_frequency", "total", rank, -math.log10(rank)) for rank in range(1, 300)]
    rows += [("rare_group_size", "rare", update, 500 - update % 33) for update in range(1, 200)]
    for update in range(0, 201, 20):
        rows += [(name, group, update, 1 - update / 400) for name in ("isotropy", "inner_product") for group in GROUPS]
        rows += [("isotropy", "total", update, 1 - shift), ("nll", "valid", update, 5 - shift * update / 200)]
        rows.append(("rare_freq_cosine", "rare", update, update / 1000))
    return rows


def world(folder: Path, task: str, runs: list[str], data: str) -> TaskScores:
    """Every run has every series and metric; alpha as its name says, 0.03 otherwise."""
    (folder / task).mkdir(parents=True)
    for number, name in enumerate([*runs, data]):
        lines = [f"{s},{g},{x:.5g},{y:.5g}\n" for s, g, x, y in series(number / 10)]
        (folder / task / f"{name}.csv").write_text("series,group,x,y\n" + "".join(lines))
        alpha = int(name[-3:]) / 100 if name[-4:-1] == "a00" else 0.03
        metrics = {
            "ppl": {"total": 20.0},
            "uniq": {"rare": number, "total": 9},
            "isotropy": {"rare": 0.5, "total": 0.6},
        }
        score = {"seed": 1, "metrics": metrics, "options": [["alpha", alpha], ["until", 40]]}
        (folder / task / f"{name}.json").write_text(json.dumps(score))
    return TaskScores({name: line() for name in runs}, task=task, folder=folder / task)


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> dict[str, TaskScores]:
    """Runs of all panels."""
    names: dict[str, dict[str, None]] = {task: {} for task in TASKS}
    for figure in DECLARED.figures.values():
        for panel in figure.panels:
            sides = DECLARED.claims[panel.claim].sides.values() if panel.claim else []
            runs = [*panel.runs.values(), *(side.runs for side in sides)]
            names[panel.task or figure.task] |= dict.fromkeys(tried[-1] for tried in runs)
    folder = tmp_path_factory.mktemp("runs")
    return {task: world(folder, task, list(names[task]), DATA.get(task, "text")) for task in TASKS}


@pytest.fixture
def empty() -> dict[str, TaskScores]:
    return {task: TaskScores({}, task=task, folder=Path("nowhere")) for task in TASKS}


def test_a_committed_figure_is_one_picture_below_150_kb():
    pictures = [path for path in (ROOT / "scales/small/reports/figures").iterdir() if path.suffix != ".csv"]
    assert sorted(path.stem for path in pictures) == sorted(DECLARED.figures)
    assert max(path.stat().st_size for path in pictures) < 150_000


def test_committed_points_are_curves_and_the_clouds_that_figures_draw():
    for stage, name, job in all_jobs(load(ROOT / "scales/small/params.yaml")):
        file = ROOT / f"scales/small/reports/runs/{stage.removeprefix('score-')}/{name}.csv"
        if isinstance(job, ScoreJob) and file.is_file():
            found = {re.match(r"\w+[@:]?", row)[0] for row in file.read_text(encoding="utf-8").splitlines()[1:]}
            assert {one for one in found if one.startswith(("projection", "pca", "similarity"))} == set(job.clouds), file


def test_every_figure_is_drawn_from_points_and_from_none(full, empty, tmp_path):
    for name, figure in DECLARED.figures.items():
        drawn = figure_points(figure, full, DECLARED)
        assert not any(panel.absent for panel in drawn), name
        assert all(len(panel.rows) for panel in drawn), name
        assert not any("{of}" in text or "…" in text for panel in drawn for text in (panel.title, panel.y)), name
        write_figure(drawn, tmp_path, name)
        kind = "png" if any(panel.panel.kind == "scatter" for panel in drawn) else "svg"
        assert {path.suffix for path in tmp_path.glob(f"{name}.*")} == {".csv", f".{kind}"}, name
        assert (tmp_path / f"{name}.{kind}").stat().st_size < 150_000, name
        blank = figure_points(figure, empty, DECLARED)
        assert all(panel.absent for panel in blank), name
        if name in ("agg-figure-5", "agps-figure-1"):
            write_figure(blank, tmp_path, "blank")
            assert (tmp_path / "blank.csv").read_text() == "panel,run,group,x,y\n"


def test_early_tables_go_by_update_and_queries_as_listed(full):
    early = figure_points(DECLARED.figures["agg-figure-1"], full, DECLARED)
    assert [panel.title[4:] for panel in early] == [f"after training step {update}" for update in EARLY]
    for number, query in enumerate(QUERIES):
        panels = figure_points(DECLARED.figures[f"agps-figure-{5 + number}"], full, DECLARED)
        assert {panel.y for panel in panels} == {f"cosine with “{query}”"}


def test_no_two_curves_of_a_figure_look_the_same():
    assert len({str(style) for style in CURVES}) == len(CURVES)
    for name, figure in DECLARED.figures.items():
        runs = {run for panel in figure.panels if panel.kind == "line" for run in panel.runs}
        assert len(runs) <= len(CURVES), name


@pytest.mark.parametrize(("value", "interval", "drawn"), [
    (0.5, (-0.5, 1.0), [([-0.5, 1.0], "None"), ([0.5], "o")]),
    (0.5, (-0.5, 3.0), [([-0.5, 2.0], "None"), ([2.0], ">"), ([0.5], "o")]),
    (-2.0, (-3.0, 1.0), [([-1.0, 1.0], "None"), ([-1.0], "<")]),
    (2.0, None, [([2.0, 2.0], "None"), ([2.0], "o")]),
])  # fmt: skip
def test_a_row_of_a_forest_plot_is_its_interval_with_arrows_beyond_the_limits(value, interval, drawn):
    axis, limits = Canvas().subplots(), (-1.0, 2.0)
    draw_row(axis, Row("", value, interval and Interval(*interval), Outcome.REPRODUCED), -0.5, limits)
    found = [(list(line.get_xdata()), line.get_marker()) for line in axis.lines]
    finish(axis, -1.0, limits, [0.0, 1.0], "label")
    assert found == drawn and axis.get_xlim() == limits
    assert [list(line.get_xdata()) for line in axis.lines[len(drawn) :]] == [[0.0, 0.0], [1.0, 1.0]]  # no effect, the paper


def test_panels_to_be_compared_have_the_same_limits(full):
    canvas = Canvas()
    draw(figure_points(DECLARED.figures["agg-figure-3"], full, DECLARED), canvas, 1, 3)
    mle, agg, values = canvas.axes
    assert (mle.get_xlim(), mle.get_ylim()) == (agg.get_xlim(), agg.get_ylim())
    assert mle.get_xlim() != values.get_xlim()


@pytest.mark.parametrize(("name", "entries"), [
    ("agg-figure-3", ["frequent", "medium", "rare", "MLE", "AGG"]),
    ("agps-figure-2", ["frequent", "medium", "rare"]),
])  # fmt: skip
def test_the_legend_names_the_runs_of_curves_or_the_groups_of_a_single_run(full, name, entries):
    canvas, panels = Canvas(), figure_points(DECLARED.figures[name], full, DECLARED)
    draw(panels, canvas, 1, len(panels))
    assert [text.get_text() for legend in canvas.legends for text in legend.get_texts()] == entries


def test_a_sweep_takes_x_from_the_options_and_names_what_is_missing(full):
    figure = DECLARED.figures["agg-figure-5"]
    without = {**full["lm"].lines}
    del without["agg-a004"]
    scores = {**full, "lm": TaskScores(without, task="lm", folder=full["lm"].folder)}
    rare = figure_points(figure, scores, DECLARED)[0]
    assert list(rare.rows[rare.rows.group == ""].x) == ["0.01", "0.02", "0.03", "0.05"]
    assert rare.absent == {"larger alpha": "none of gpt2m-agg-a004, agg-a004 is scored"}


def test_curves_are_of_one_group_and_bear_the_update_where_rows_thaw(full):
    rare, frequent, _ = figure_points(DECLARED.figures["agg-figure-2"], full, DECLARED)
    assert set(rare.rows.group) == {"rare"} and set(frequent.rows.group) == {"freq"}
    assert set(rare.marks.values()) == {40}


def test_the_effect_of_a_claim_is_followed_over_the_updates_of_all_its_curves(tmp_path):
    """A ratio of validation perplexities, each seed and its mean on a logarithmic scale; print and turning point as lines."""
    folder = tmp_path / "lm"
    folder.mkdir()
    nll = {"mle": [6, 5, 4], "mle-2": [6, 5, 5], "agg": [6, 6, 4], "agg-2": [6, 4, 6]}
    for name, values in nll.items():
        updates = (0, 10, 20) if name != "agg" else (0, 20, 30)  # validated at other moments
        rows = "".join(f"nll,valid,{x},{y}\n" for x, y in zip(updates, values, strict=True))
        (folder / f"{name}.csv").write_text("series,group,x,y\n" + rows)
        (folder / f"{name}.json").write_text(json.dumps({"metrics": {}}))
    sheet = {name: line(name[:3], seed=2 if name.endswith("2") else 1) for name in nll}
    points = effect_points(DECLARED.claims["agg-keeps-total-perplexity"], TaskScores(sheet, task="lm", folder=folder), DECLARED)
    found = {group: rows.y.astype(float).tolist() for group, rows in points.groupby("group")}
    first, second = [1, math.exp(6 - 4)], [1, math.exp(4 - 5), math.exp(6 - 5)]
    assert found["seed"] == pytest.approx(first + second, rel=1e-5)
    assert found[""] == pytest.approx([1, math.exp((2 + 1) / 2)], rel=1e-5)
    assert points[points.group == ""].x.tolist() == ["0", "20"]
    assert found["threshold"] == [1, 1] and found["reported"] == pytest.approx([15.51 / 15.51] * 2, abs=0.01)


def test_a_panel_without_what_its_kind_needs_is_refused():
    with pytest.raises(ValueError, match="a panel of kind sweep needs option, runs"):
        Panel(title="t", kind="sweep", metric="ppl.total")


def test_a_flat_curve_moves_within_the_range_of_its_panel():
    curve = "panel,run,group,x,y\n" + "".join(f"p,a,rare,{x},{x % 3}\np,b,rare,{x},5\n" for x in range(9))
    moved = curve.replace("p,b,rare,4,5", "p,b,rare,4,5.1")
    (move,) = figure_moves("figures/agg-figure-1.csv", curve, moved, DECLARED)
    assert (move.row, move.out) == ("p b rare", False)


def test_no_figure_of_the_small_scale_loses_a_panel_whose_runs_have_points():
    scores = committed()
    for name, figure in DECLARED.figures.items():
        own, declared = points_in_setting(figure, DECLARED, scores), figure_points(figure, scores, DECLARED)
        for shown, as_declared in zip(own, declared, strict=True):
            assert as_declared.rows.empty or not shown.rows.empty, f"{name}: {shown.title}"
