"""Every number that the papers print has a home, and is compared with a number of not reported as far as that is fair."""

import csv
import io
import math
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tiny import run_sheet
from tiny.run_sheet import CORPORA, DECLARED, at, cells_of, every_metric, line, world, write

from raretokens import csv_files
from reproduction.papers.declarations import ReportedTable, is_suspicious, number
from reproduction.papers.task_scores import TaskScores
from reproduction.pipeline.jobs import run_sheet as sheet_of
from reproduction.pipeline.parameters_file import load
from reproduction.report.cells import reported_counts
from reproduction.report.fact_cells import is_same
from reproduction.report.tables import to_csv, to_latex, to_markdown

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "data/paper").glob("*_t*.csv"))  # tables and text facts
LATER = {table.reported for table in DECLARED.tables.values() if not DECLARED.is_counted(table)}
KEY = ("row", "column", "group")


@pytest.fixture(scope="module", params=["no run", "every run"])
def scores(request, tmp_path_factory) -> dict[str, TaskScores]:
    folder = tmp_path_factory.mktemp("runs")
    return run_sheet.full(folder) if request.param == "every run" else world(folder, {}, {})


@pytest.fixture
def seeds(tmp_path) -> dict[str, TaskScores]:
    """Two seeds of the baseline and of AGG, one of static AGG and of a run that no table names."""
    sheet = {"mle": line(), "mle-2": line(seed=2), "agg": line("agg"), "agg-2": line("agg", seed=2)}
    sheet |= {"agg-static": line("agg", options={"static": True}), "mine": line("mine")}
    numbers = {"mle": 130.0, "mle-2": 134.0, "agg": 140.0, "agg-2": 150.0, "agg-static": 131.0, "mine": 90.0}
    for name, ppl in numbers.items():
        write(tmp_path, "lm", name, {"seed": sheet[name].seed, "metrics": {"ppl": {"total": ppl, "freq": ppl}}})
    return world(tmp_path, sheet, {})


def test_each_reported_cell_stands_in_one_table_and_none_is_made_up(scores):
    """Read anew from the files on both sides, cell by cell."""
    tables = defaultdict(list)
    for name, table in DECLARED.tables.items():
        lines = list(csv.DictReader(io.StringIO(to_csv(cells_of(name, scores)))))
        tables[table.reported] += [(cell["reported_cell"], cell["reported"]) for cell in lines if cell["reported_cell"]]
        assert len({(cell["row"], cell["column"]) for cell in lines}) == len(lines), name
        assert all(bool(cell["reason"]) == (cell["status"] == "not run") for cell in lines), name
        if not scores["lm"].lines:
            assert {cell["status"] for cell in lines if cell["reported"]} <= {"not run", "quoted"}, name
    assert set(tables) == {path.stem for path in FILES}
    total = Counter()
    for path in FILES:
        reported = list(csv.DictReader(path.open(encoding="utf-8")))
        shown = {
            " > ".join(cell[key] for key in KEY): re.sub("^semantic.:", "", cell["group"]) + ": " + cell["value"]
            if cell["group"].startswith("semantic")
            else cell["value"]
            for cell in reported
        }
        assert Counter(tables[path.stem]) == Counter(shown.items()), path.stem
        assert len(shown) == len(reported)
        if path.stem not in LATER:
            total["text" if path.stem.endswith("_text_facts") else "table"] += len(reported)
    assert total == {"table": 744, "text": 44}


def test_counts_are_out_of_all_that_is_printed(scores):
    inside = {name: cells_of(name, scores) for name in DECLARED.tables}
    counts = reported_counts(DECLARED, inside)
    tables, text = counts["tables"], counts["text"]
    assert (tables.files, tables.reported, tables.dashes) == (40, 744, 28)
    assert (text.files, text.reported, text.dashes) == (4, 44, 0)
    theirs = [cell for name, table in DECLARED.tables.items() if table.reported not in LATER for cell in inside[name]]
    both = [cell for cell in theirs if cell.measured and cell.reported and cell.reported_cell]
    assert tables.measured + text.measured == len(both)
    assert bool(both) == bool(scores["lm"].lines)
    later = {name: table for name, table in DECLARED.tables.items() if table.reported in LATER}
    few = reported_counts(DECLARED.replaced(tables=later), {})
    assert (few["tables"].reported, few["text"].reported, few["tables"].measured) == (744, 44, 0)


def test_what_cannot_run_says_why(tmp_path):
    inside = [cell for cell in cells_of("frage-2", world(tmp_path, {}, {})) if cell.reported]
    licence = [cell for cell in inside if cell.column.startswith("PTB") and cell.status == "not run"]
    assert licence and {cell.reason for cell in licence} == {
        "the licence of the Penn Treebank forbids a mirror, so users must provide its files"
    }
    table = DECLARED.tables["frage-2"]
    named = table.replaced(rows=[row.replaced(absent="of the row") for row in table.rows])
    inside = [cell for cell in cells_of(named, world(tmp_path, {}, {})[table.task]) if cell.status == "not run"]
    assert {cell.reason for cell in inside} == {"of the row"}, "the reason of a row comes before that of a column"


def test_a_run_of_a_new_task_fills_its_table_without_another_word(tmp_path):
    write(tmp_path, "skipgram", "sg-enwik9-mle", {"seed": 1, "metrics": every_metric(70.0)})
    write(tmp_path, "skipgram", "sg-enwik9-frage", {"seed": 1, "metrics": every_metric(72.0)})
    lines = {name: line(tokens="skipgram") for name in ("sg-enwik9-mle", "sg-enwik9-frage")}
    inside = cells_of("frage-1", {"skipgram": TaskScores(lines, task="skipgram", folder=tmp_path / "skipgram")})
    inside = [cell for cell in inside if cell.reported]
    assert [cell.measured for cell in inside] == ["70.00"] * 3 + ["72.00"] * 3
    assert {cell.direction for cell in inside if cell.row == "with FRAGE"} == {"same"}


def test_rows_of_a_table_average_the_seeds_that_most_of_them_have(seeds):
    inside = cells_of("agg-10", seeds)
    shown = {cell.row: (cell.measured, cell.runs, cell.remark) for cell in inside if cell.column == "PPL"}
    fewer = "seed 1 alone; other rows average seeds 1, 2"
    assert shown["MLE"] == ("132.00", "mle mle-2", "")
    assert shown["AGG"] == ("145.00", "agg agg-2", "")
    assert shown["static AGG"] == ("131.00", "agg-static", fewer)
    assert shown["mine"] == ("90.00", "mine", fewer)
    assert at(inside, "static AGG", "PPL").direction == "same"  # 131 is more than 130, of the same seed
    assert f"\n* static AGG; mine: {fewer}\n" in to_markdown(DECLARED.tables["agg-10"], inside)


def test_a_seed_that_most_rows_lack_is_left_out(seeds):
    lines = {name: one for name, one in seeds["lm"].lines.items() if name != "agg-2"}
    inside = cells_of("agg-10", {"lm": TaskScores(lines, task="lm", folder=seeds["lm"].folder)})
    shown = {cell.row: (cell.measured, cell.runs, cell.remark) for cell in inside if cell.column == "PPL"}
    assert shown["MLE"] == ("130.00", "mle", "seed 2 left out: most rows lack it")
    assert shown["AGG"] == ("140.00", "agg", "") and shown["mine"] == ("90.00", "mine", "")


def test_rows_without_a_common_seed_say_which_they_have(seeds):
    lines = {name: seeds["lm"].lines[name] for name in ("mle", "agg-2")}
    lines["agg"] = lines.pop("agg-2")
    write(seeds["lm"].folder.parent, "lm", "agg", {"seed": 2, "metrics": {"ppl": {"total": 150.0}}})
    inside = cells_of("agg-3", {"lm": TaskScores(lines, task="lm", folder=seeds["lm"].folder)})
    remarks = {cell.row: cell.remark for cell in inside if cell.column == "PPL Total" and cell.measured}
    assert remarks == {
        row: f"seed {seed} alone: no seed is that of most rows" for row, seed in (("MLE", 1), ("AGG", 2))
    }


def test_only_the_printed_scale_can_match(tmp_path):
    reported = {"mle": 0.3, "freeze": 0.7}
    for name, value in reported.items():
        write(tmp_path, "lm", name, {"seed": 1, "metrics": {"isotropy": {"total": value, "rare": 1 - value}}})
    there = world(tmp_path, {name: line(name) for name in reported}, {})
    table = DECLARED.tables["agg-1"]
    for at_paper_scale, status in ((True, "match"), (False, "other scale")):
        inside = cells_of("agg-1", there, at_paper_scale=at_paper_scale)
        total, rare = at(inside, "Freeze", "I(W) Total"), at(inside, "Freeze", "I(W) Rare")
        assert (total.status, total.direction, rare.direction) == (status, "same", "opposite")
        assert at(inside, "MLE", "I(W) Total").direction == ""
        text, tex = to_markdown(table, inside), to_latex(table, inside, "agg-1")
        assert ("**0.700** (0.739)" in text, "0.700 ⇈ (0.739)" in text) == (at_paper_scale, not at_paper_scale)
        assert "0.300 ⇅ (0.831)" in text and r"0.300 $\uparrow\downarrow$ (0.831)" in tex


def test_the_printed_scale_is_that_of_the_papers_corpora():
    papers = sheet_of(load(ROOT / "scales/paper/params.yaml")).corpora
    assert DECLARED.is_paper_scale("paper", papers)
    assert not DECLARED.is_paper_scale("paper", {**papers, "lm": "my-text"})
    assert not DECLARED.is_paper_scale("demo", CORPORA) and not DECLARED.is_paper_scale("my-scale", CORPORA)


def test_a_row_is_compared_with_its_own_baseline(tmp_path):
    numbers = {"base-mle": 20.0, "base-frage": 21.0, "big-mle": 30.0, "big-frage": 29.0}
    for name, bleu in numbers.items():
        write(tmp_path, "nmt", name, {"seed": 1, "metrics": {"bleu": {"tokenised": bleu}}})
    inside = cells_of("frage-3", world(tmp_path, {}, {name: line(tokens="nmt") for name in numbers}), at_paper_scale=False)
    ways = {cell.row: cell.direction for cell in inside if cell.column == "WMT En-De" and cell.measured}
    assert list(ways.values()) == ["", "same", "", "opposite"]


def test_a_doubtful_number_is_doubtful_in_every_table_of_its_paper():
    by_number = defaultdict(set)
    for path in FILES:
        for cell in csv_files.read_csv(path).to_dict("records"):
            if cell["value"]:
                by_number[cell["paper"], cell["row"], cell["column"], cell["value"]].add(is_suspicious(cell["note"]))
    assert [key for key, marks in by_number.items() if len(marks) > 1] == []


def test_effective_alpha_is_shown_where_it_is_scaled(tmp_path):
    options = [["alpha", 0.08], ["alpha_scale", 0.06]]
    write(tmp_path, "nmt", "base-agg", {"seed": 1, "metrics": {}, "options": options})
    inside = cells_of("agg-11", world(tmp_path, {}, {"base-agg": line("agg", tokens="nmt")}))
    cell = at(inside, "alpha for AGG", "Machine Translation Base")
    assert (cell.measured, cell.status, cell.remark) == ("0.0048", "differs", "0.08 times alpha_scale 0.06")


def test_adam_s_betas_are_what_the_run_lists(tmp_path):
    listed = {"seed": 1, "metrics": {}, "parameters": [["betas", "0.9/0.999"]]}
    write(tmp_path, "nmt", "base-agps", listed)
    write(tmp_path, "nmt", "big-agps", {**listed, "parameters": []})
    there = world(tmp_path, {}, {name: line("agps", tokens="nmt") for name in ("base-agps", "big-agps")})
    found = [at(cells_of(name, there), "Adam's betas (in the text)", column) for name, column in BETAS]
    assert [(cell.measured, cell.status, cell.reported_cell) for cell in found] == [
        ("0.9/0.999", "match", ""),
        ("0.9/0.98", "differs", ""),
    ]


BETAS = (("agps-6", "Transformer base"), ("agps-7", "Transformer big"))


def test_differences_of_runs_in_the_running_text(tmp_path):
    numbers = {"base-mle": 20.0, "base-agps": 21.0, "big-mle": 30.0}
    for name, bleu in numbers.items():
        write(tmp_path, "nmt", name, {"seed": 1, "metrics": {"bleu": {"tokenised": bleu}}})
    lines = {name: line(tokens="nmt") for name in numbers}
    row = "BLEU gains base / big, text 4.1.1"
    cell = at(cells_of("agps-text", world(tmp_path, {}, lines), at_paper_scale=False), row, "fact")
    assert (cell.measured, cell.reported, cell.status, cell.direction) == ("1.00 / —", "1.31 / 1.18", "other scale", "")
    write(tmp_path, "nmt", "big-agps", {"seed": 1, "metrics": {"bleu": {"tokenised": 31.5}}})
    there = world(tmp_path, {}, {**lines, "big-agps": line(tokens="nmt")})
    assert (at(cells_of("agps-text", there, at_paper_scale=False), row, "fact").measured) == "1.00 / 1.50"
    cell = at(cells_of("agps-text", there), row, "fact")
    assert (cell.status, cell.direction) == ("match", "same")  # each within 0.4


@pytest.mark.parametrize("name", ["agg-1", "agg-2", "agg-3", "agg-4"])
def test_implied_shares_give_the_printed_perplexities(name):
    table = DECLARED.tables[name]
    implied = next({group: float(share) for group, share in row.implied.items()} for row in table.rows if row.implied)
    assert sum(implied.values()) == pytest.approx(1.0, abs=1e-9)
    reported = ReportedTable(ROOT / "data/paper", table.reported)
    for row in (row.title for row in table.rows if not row.data):
        numbers = {group: reported.cells[row, "PPL", group].value for group in (*implied, "Total")}
        mean = sum(share * math.log(numbers[group]) for group, share in implied.items())
        assert math.exp(mean) == pytest.approx(numbers["Total"], rel=1e-3)


def test_the_share_of_the_test_tokens_stands_beside_the_implied_one(scores):
    inside = [cell for cell in cells_of("agg-1", scores) if cell.row == "Share of the test tokens"]
    assert [(cell.column, cell.reported, cell.metric, cell.reported_cell) for cell in inside] == [
        (f"PPL {group}", share, f"token_share.{group.lower()}", "")
        for group, share in (("Freq", "0.9145"), ("Med", "0.0835"), ("Rare", "0.0020"))
    ]


def test_a_row_says_that_it_is_not_the_paper_s_method(scores):
    table, inside = DECLARED.tables["agg-6"], cells_of("agg-6", scores)
    for text in (to_markdown(table, inside), to_latex(table, inside, "agg-6")):
        assert "SC (Wang et al., 2020) (not the paper's method)" in text


@pytest.mark.parametrize(
    ("text", "value"), [("24M", 24e6), ("37K", 37e3), ("4.5 million", 4.5e6), ("7e-4", 7e-4), ("web", None), ("", None)]
)
def test_numbers_as_printed(text, value):
    assert number(text) == value


def test_a_number_printed_with_a_unit_is_rounded_and_no_other_is():
    """32k stands for 32,768: what is off by three in a hundred at most."""
    assert [is_same("32k", value, 0.0) for value in (31_040, 31_039, 32_768, 32_960, 32_961)] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert is_same("1.5M", 1_540_000, 0.0) and not is_same("1.5M", 1_550_000, 0.0)
    assert is_same("32000", 32_000, 0.0) and not is_same("32000", 32_001, 0.0) and is_same("32000", 32_001, 1.0)
