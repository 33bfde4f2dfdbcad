"""A whole table, as CSV and as Markdown, from scores made by hand; neighbours, index and included tables."""

from pathlib import Path

import pytest
from tiny.run_sheet import DECLARED, cells_of, line, scored

from raretokens.errors import UserError
from reproduction.papers.table import Table
from reproduction.pipeline.jobs import run_sheet as sheet_of
from reproduction.pipeline.parameters_file import load
from reproduction.report import build, markdown
from reproduction.report.tables import to_csv, to_markdown

ROOT = Path(__file__).parents[1]


def isotropy(total: float, seed: int = 1) -> dict:
    return {"seed": seed, "metrics": {"isotropy": {"total": total}}}


def test_a_whole_table_as_csv_and_markdown(tmp_path):
    reported = {"MLE": ("0.377", ""), "AGG": ("0.813", "odd"), "SC": ("0.5", "quoted"), "Static": ("0.752", "")}
    rows = [f"X,1,{row},I(W),Total,{value},ratio,up,{note}\n" for row, (value, note) in reported.items()]
    (tmp_path / "x_table1.csv").write_text("paper,table,row,column,group,value,unit,direction,note\n" + "".join(rows))
    table = Table(
        title="Isotropy",
        paper="X",
        place="table 1",
        reported="x_table1",
        task="lm",
        columns=[
            {"title": "I(W)", "column": "I(W)", "group": "Total", "metric": "isotropy.total"},
            {"title": "Uniq", "metric": "uniq.rare"},
        ],
        rows=[
            {"title": "MLE", "runs": ["big-mle", "mle"]},
            {"title": "AGG", "runs": ["agg"]},
            {"title": "SC", "runs": ["sc"]},
            {"title": "Static", "runs": ["agg-static"]},
        ],
        also=True,
    )
    files = {
        "mle": isotropy(0.40),
        "mle-2": isotropy(0.44, seed=2),
        "agg-2": isotropy(0.64, seed=2),
        "agg": isotropy(0.60),
        "mine": {"seed": 1, "metrics": {"uniq": {"rare": 7}}},
        "removed": isotropy(0.1),
    }
    sheet = {
        "mle": line("mle"),
        "agg": line("agg"),
        "mle-2": line("mle", seed=2),
        "agg-2": line("agg", seed=2),
        "mine": line("mine"),
        "later-2": line("mine"),
        "smaller-steps": line("mine", model="base-1k"),
        "other-text": line("mine", tokens="other"),
    }
    cells = cells_of(table, scored(tmp_path, files, sheet), DECLARED.replaced(folder=tmp_path))
    assert to_csv(cells) == (
        "row,column,metric,reported,measured,spread,delta,runs,status,reason,note,direction,remark,reported_cell\n"
        "MLE,I(W),isotropy.total,0.377,0.420,0.020,+0.043,mle mle-2,match,,,,,MLE > I(W) > Total\n"
        "AGG,I(W),isotropy.total,0.813,0.620,0.020,-0.193,agg agg-2,differs,,odd,same,,AGG > I(W) > Total\n"
        "SC,I(W),isotropy.total,0.5,,,,,quoted,,quoted,,,SC > I(W) > Total\n"
        "Static,I(W),isotropy.total,0.752,,,,,not run,no run named agg-static on the run sheet,,,,Static > I(W) > Total\n"
        "mine,I(W),isotropy.total,,,,,,not run,mine has no isotropy.total,,,,\n"
        "mine,Uniq,uniq.rare,,7,,,mine,not reported,,,,,\n"
        "later-2,I(W),isotropy.total,,,,,,not run,later-2 has no scores yet,,,,\n"
        "later-2,Uniq,uniq.rare,,,,,,not run,later-2 has no scores yet,,,,\n"
    )
    text = to_markdown(table, cells)
    (legend,) = (line for line in text.splitlines() if line.startswith("Each cell is the measured number"))
    assert legend.endswith(" mine, later-2: the paper's table has no such rows; they are further runs, for comparison.")
    assert text.replace(legend, "legend") == (
        "**X table 1: Isotropy**\n\n"
        "| | I(W) | Uniq |\n|---|---|---|\n"
        "| MLE | **0.42 ± 0.02** (0.377) |  |\n"
        "| AGG | 0.62 ± 0.02 ⇈ (0.813) |  |\n"
        "| SC | — (0.5†) |  |\n"
        "| Static | — (0.752) |  |\n"
        "| mine | — | 7 |\n"
        "| later-2 | — | — |\n\n"
        "legend\n\n"
        "* AGG, I(W): note on the reported number: odd\n" + "* Static: no run named agg-static on the run sheet\n"
        "* mine: mine has no isotropy.total\n"
        "* later-2: later-2 has no scores yet\n"
    )


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
    assert "* Human, Uniq Total: note on the reported number: suspicious: the groups add to 18290" in to_markdown(
        DECLARED.tables["agg-3"], cells
    )


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
