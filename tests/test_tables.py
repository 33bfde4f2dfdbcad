"""Tables from scores made by hand; the project's own declarations against the reported numbers."""

import json
from pathlib import Path

import pytest
from tiny.run_sheet import DECLARED, at, cells_of, line, scored

from reproduction.papers.task_scores import TaskScores
from reproduction.pipeline.jobs import run_sheet as sheet_of
from reproduction.pipeline.parameters_file import load
from reproduction.report import build
from reproduction.report.cells import Cell, significant
from reproduction.report.tables import MARKS, marked, remarks

ROOT = Path(__file__).parents[1]
PRINTED = ROOT / "data/paper"


@pytest.fixture
def world(tmp_path) -> TaskScores:
    def ppl(seed: int, rare: float, total: float, iw: float) -> dict:
        return {"seed": seed, "metrics": {"ppl": {"rare": rare, "total": total}, "isotropy": {"total": iw}}}

    runs = {
        "mle": ppl(1, 800.0, 20.0, 0.30),
        "mle-2": ppl(2, 820.0, 22.0, 0.34),
        "freeze": ppl(1, 3000.0, 20.77, 0.70),
        "freeze-2": ppl(2, 3000.0, 20.77, 0.70),
        "mine": ppl(1, 10.0, 5.0, 0.99),
    }
    sheet = {"mle": line("mle"), "mle-2": line("mle", seed=2), "freeze": line("freeze"), "mine": line("mine")}
    sheet["freeze-2"] = line("freeze", seed=2)
    return scored(tmp_path, runs, sheet)


def test_a_score_of_other_parameters_is_left_out_and_named(world):
    """As after `alpha: 0.05` and a table alone, which trains the first seed and finds the second one as it was."""
    lines = {**world.lines, "mle-2": world.lines["mle-2"].replaced(parameters_hash="other")}
    mle = at(cells_of("agg-1", TaskScores(lines, task="lm", folder=world.folder)), "MLE", "PPL Rare")
    assert (mle.measured, mle.runs) == ("800.00", "mle")
    assert "mle-2 left out: scored with other parameters" in mle.remark
    lines["mle"] = lines["mle"].replaced(parameters_hash="other")
    cell = at(cells_of("agg-1", TaskScores(lines, task="lm", folder=world.folder)), "MLE", "PPL Rare")
    assert (cell.measured, cell.reason) == ("", "mle has scores of other parameters")


def test_points_and_curves_of_other_parameters_are_not_drawn(world):
    lines = {**world.lines, "mle": world.lines["mle"].replaced(parameters_hash="other")}
    for name in lines:
        (world.folder / f"{name}.csv").write_text("series,group,x,y\nnll,valid,1,2\n")
    scores = TaskScores(lines, task="lm", folder=world.folder)
    assert [name for name in lines if len(scores.points(name))] == [name for name in lines if name != "mle"]
    assert [len(scores.curve(name, "nll.valid")[0]) for name in ("mle", "mle-2")] == [0, 1]
    assert "\nmle," not in (plots := build.curves_of_all_runs(scores, world.folder)) and "\nmle-2," in plots


def test_a_number_of_a_part_of_a_text_says_so(world):
    """As a perplexity with dynamic evaluation, beside perplexities of whole texts."""
    own = world.folder / "mle.json"
    own.write_text(json.dumps(json.loads(own.read_text()) | {"signatures": [["ppl", "log:e|first:1000|split:test"]]}))
    cells = cells_of("agg-1", TaskScores(world.lines, task="lm", folder=world.folder))
    assert "of the first 1,000 tokens of each text" in at(cells, "MLE", "PPL Rare").remark
    assert "first" not in at(cells, "MLE", "I(W) Total").remark + at(cells, "Freeze", "PPL Rare").remark


def test_a_cell_is_the_mean_over_seeds_beside_the_printed_number(world):
    cells = cells_of("agg-1", world)
    mle = at(cells, "MLE", "PPL Rare")
    assert (mle.measured, mle.spread, mle.reported, mle.delta, mle.runs) == ("810.00", "10.00", "813.76", "-3.76", "mle mle-2")
    assert mle.status == "match"
    assert at(cells, "Freeze", "I(W) Total").status == "match"  # 0.70 against 0.739, within 0.08
    assert at(cells, "MLE", "PPL Total").status == "match"  # 21.00 against 20.77, within 2 %
    assert at(cells, "Freeze", "PPL Freq").status == "not run"  # no such score


def test_a_size_that_trains_for_another_time_says_so(tmp_path):
    runs = {
        f"{size}-{name}": {"seed": 1, "metrics": {"bleu": {"tokenised": 20}}, "parameters": [["steps", updates]]}
        for size, updates in (("base", 2000), ("big", 1000))
        for name in ("mle", "agg")
    }
    sheet = {name: line(name.split("-")[1], tokens="nmt") for name in runs}
    cells = cells_of("agg-6", scored(tmp_path, runs, sheet, "nmt"))
    assert at(cells, "AGG", "Big").remark == "Big has 1,000 training steps, Base 2,000"
    assert not at(cells, "AGG", "Base").remark


def test_other_runs_follow_and_rows_without_a_run_say_why(world):
    cells = cells_of("agg-2", world)
    assert at(cells, "mine", "PPL Rare").status == "not reported"
    assert at(cells, "Freeze (b)", "PPL Rare").status == "not run"
    assert at(cells, "Freeze (b)", "PPL Rare").reason == "no run named lm6-freeze-b or freeze-b on the run sheet"
    assert at(cells, "Freeze (b)", "PPL Rare").reported == "65.76"
    rows = list(dict.fromkeys(cell.row for cell in cells))
    assert rows == [
        "MLE",
        "Freeze (b) & (c)",
        "Freeze (b)",
        "Freeze (c)",
        "Share of the test tokens",
        "mine",
    ]  # freeze has its row in another table


def test_other_runs_without_scores_or_a_metric_say_so_and_variants_and_other_texts_have_no_row(world):
    further = {"later": line("mine"), "variant": line("mine", model="base-1k"), "other-text": line("mine", tokens="other")}
    cells = cells_of("agg-2", TaskScores(world.lines | further, task="lm", folder=world.folder))
    reasons = {cell.row: cell.reason for cell in cells if cell.column == "PPL Freq"}
    assert (reasons["mine"], reasons["later"]) == ("mine has no ppl.freq", "later has no scores yet")
    assert not reasons.keys() & {"variant", "other-text"}


@pytest.mark.parametrize("folder", [".", "scales/small", "scales/paper"])
def test_each_scale_can_name_itself(folder):
    assert load(ROOT / folder / "params.yaml").scale in DECLARED.scales


def test_the_text_of_a_scale_is_the_first_corpus_of_each_task():
    """Reports name it, and numbers of the papers are compared with those of no other text."""
    parameters = load(ROOT / "params.yaml")
    further = parameters.corpora["lm"].replaced(corpus="wikitext-2")
    sheet = sheet_of(parameters.replaced(corpora={**parameters.corpora, "more": further}))
    assert sheet.corpora["lm"] == parameters.corpora["lm"].corpus != further.corpus


def test_the_report_of_an_empty_world_says_not_run(tmp_path):
    build.write(sheet_of(load(ROOT / "params.yaml")), DECLARED.replaced(figures={}), tmp_path)
    text = (tmp_path / "index.md").read_text()
    assert "Of these, 0 could be tested" in text and " were not run." in text
    assert "**0 of 744** reported numbers of 40 tables" in text and DECLARED.scales["demo"].text in text
    assert "not measured" in (tmp_path / "findings.md").read_text() and (tmp_path / "papers/agg-forest.svg").is_file()
    assert json.loads((tmp_path / "headline.json").read_text()) == {}


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ({"reported": "2", "note": "quoted from another paper"}, "— (2†)"),
        ({"reported": "2", "note": "suspicious; a slip"}, "— (2 ‡)"),
        ({"reported": "2", "measured": "3", "status": "differs", "direction": "opposite"}, "3 ⇅ (2)"),
        ({"reported": "2", "measured": "2", "status": "match", "direction": "same"}, "**2** (2)"),
        ({"reported": "2", "measured": "3", "status": "differs", "metric": "facts"}, "3 (≠ 2)"),
        ({"measured": "sea", "metric": "neighbours", "note": "rare"}, "*sea*"),
        ({"status": "not run"}, "—"),
        ({}, ""),
    ],
)
def test_each_mark_of_a_cell_has_its_meaning(cell, text):
    assert marked(Cell(**{"row": "r", "column": "c", "metric": "m", "reported": "", "measured": "", **cell}), MARKS) == text


def test_a_remark_names_the_columns_that_it_is_about():
    def cell(row: str, column: str, **more: str) -> Cell:
        return Cell(**{"row": row, "column": column, "metric": "m", "reported": "", "measured": "", **more})

    found = remarks(DECLARED.tables["agg-1"], [
        cell("one", "x", remark="first"), cell("one", "y", remark="second"), cell("one", "z"),
        cell("all", "x", remark="first"), cell("all", "y", remark="first"),
        cell("why", "x", reason="not there", reported="1", note="quoted"), cell("why", "y", reported="2", note="quoted; by whom"),
    ])  # fmt: skip
    noted = {"note on the reported number: quoted; by whom": ["why, y"]}  # the legend explains a note that is only `quoted`
    assert found == {"first": ["one, x", "all"], "second": ["one, y"], "not there": ["why"]} | noted
    facts = next(table for table in DECLARED.tables.values() if table.facts and not table.is_of_text)
    reasons = {("a", "x"): "no run", ("b", "x"): "no run", ("a", "y"): "no run", ("b", "y"): "no fact"}
    columns = [cell(*place, reason=reason) for place, reason in reasons.items()]
    assert remarks(facts, columns) == {"no run": ["x", "y, a"], "no fact": ["y, b"]}


def test_numbers_end_where_their_spread_begins():
    known = {
        ("32832.40", "4271.00"): ("33,000", "4,000"),
        ("77.90", "0.17"): ("77.90", "0.17"),
        ("106", "18"): ("106", "18"),
    }
    known |= {("24630.40", ""): ("24,630", ""), ("13143", ""): ("13143", ""), ("0.002", "0.000"): ("0.002", "0.000")}
    known |= {("-13.85", "1.90"): ("-13.8", "1.9"), ("▁kindled", ""): ("▁kindled", "")}
    assert {given: significant(*given) for given in known} == known
