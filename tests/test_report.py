"""A whole table, as CSV and as Markdown, from scores made by hand; neighbours, index and included tables."""

from pathlib import Path

import pytest
from tiny.run_sheet import DECLARED, cells_of, line, scored

from raretokens.errors import UserError
from reproduction.pipeline.jobs import run_sheet as sheet_of
from reproduction.pipeline.parameters_file import load
from reproduction.report import build, markdown
from reproduction.report.tables import to_latex, to_markdown

ROOT = Path(__file__).parents[1]


def test_a_data_row_is_compared_exactly_and_keeps_the_flag_of_its_printed_number(tmp_path):
    human = {"metrics": {"uniq": {"freq": 10844, "rare": 299, "total": 18290}}}
    cells = cells_of("agg-3", scored(tmp_path, {"human": human}, {}))
    status = {cell.column: (cell.status, cell.reason) for cell in cells if cell.row == "Human" and cell.reported}
    assert status == {
        "Uniq Freq": ("match", ""),
        "Uniq Med": ("not run", "human has no uniq.med"),
        "Uniq Rare": ("differs", ""),  # exact: no training is involved
        "Uniq Total": ("differs", ""),
    }
    table = DECLARED.tables["agg-3"]
    text = to_markdown(table, cells)
    assert "(18920 ‡)" in text and "* Human, Uniq Total: note on the reported number: suspicious: the groups add to 18290" in text
    assert r"(18920\textdaggerdbl)" in to_latex(table, cells, "agg-3")


def test_a_run_whose_name_has_no_size_stands_in_one_column(tmp_path):
    mine = {"metrics": {"bleu": {"tokenised": 3.0}}}
    world = scored(tmp_path, {"mine": mine}, {"mine": line("m", model="big", tokens="nmt")}, "nmt")
    cells = cells_of("agg-6", world)
    assert [(cell.row, cell.column) for cell in cells if cell.measured] == [("mine", "Big")]


def test_neighbours_show_what_is_shared_with_print_and_which_are_rare(tmp_path):
    listed = [["\u2581website", 0.9, "med"], ["a|b", 0.8, "rare"], ["\u2581blog", 0.7, "rare"], ["\u2581", 0.6, "freq"]]
    score = {"neighbours": [["homepage", listed], ["Werewolf", []], ["light", [["\u2581lamp", 0.5, "rare"]]]]}
    world = scored(tmp_path, {"agg": score}, {"agg": line("agg")})
    table = DECLARED.tables["agg-12"]
    cells = cells_of(table, world)
    text = to_markdown(table, cells)
    row = "| homepage, AGG | **website** (website) | *a\\|b* (webpage) | ***blog*** (blog) | \u2581 (Tumblr) | — (websites) |"
    assert f"{row} 2 of 5 |\n" in text
    assert "| light, AGG | *lamp* | — | — | — | — |" in text
    reasons = {cell.row: cell.reason for cell in cells if cell.status == "not run"}
    assert reasons["Werewolf, AGG"] == "Werewolf is no single token of this vocabulary"
    assert reasons["policymakers, AGG"] == "policymakers is not asked for at this scale"
    assert reasons["homepage, MLE"] == "no run named gpt2m-mle or mle on the run sheet"


def test_the_index_names_the_corpora_when_they_are_not_the_scale_s(tmp_path):
    sheet = sheet_of(load(ROOT / "params.yaml"))
    build.write(sheet.replaced(corpora={**sheet.corpora, "lm": "my-text"}), DECLARED.replaced(figures={}), tmp_path)
    text = (tmp_path / "index.md").read_text()
    assert DECLARED.scales["demo"].text not in text and "`my-text` (language models)" in text
    assert DECLARED.scales["demo"].hides in text and "not the default text of this scale" in text


def test_an_include_that_cannot_be_filled_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"gone.md: no such file"):
        markdown.refresh("<!-- include gone.md -->\n<!-- end -->\n", tmp_path)
    with pytest.raises(UserError, match="has no `<!-- end -->`"):
        markdown.refresh("<!-- include t.md -->\n", tmp_path)


def test_rows_and_columns_of_a_csv_are_included_as_a_table(tmp_path):
    (tmp_path / "t.csv").write_text('size,name,time_to_mle\nbig,agg,1.01\nsmall,agg,0.99\nbig,"a, b",1.2\n')
    part = "<!-- include t.csv where size=big columns name, time_to_mle -->\n"
    text = markdown.refresh(part + "stale\n<!-- end -->\n", tmp_path)
    assert text == part + "| name | time to mle |\n| --- | --- |\n| agg | 1.01 |\n| a, b | 1.2 |\n<!-- end -->\n"
    assert markdown.refresh(text, tmp_path) == text
    (tmp_path / "t.md").write_text("fresh\n")
    assert markdown.refresh("<!-- include t.md -->\nstale\n<!-- end -->\nb\n", tmp_path).split("\n")[1:] == [
        "fresh", "<!-- end -->", "b", ""]  # fmt: skip
    whole = markdown.refresh("<!-- include t.csv -->\n<!-- end -->\n", tmp_path)
    assert whole.count("|") == 5 * 4
    for part, reason in (
        ("columns nam", "no column 'nam'; the nearest is name"),
        ("where size=huge", "no row where size=huge"),
    ):
        with pytest.raises(UserError, match=reason):
            markdown.refresh(f"<!-- include t.csv {part} -->\n<!-- end -->\n", tmp_path)
