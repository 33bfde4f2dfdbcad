"""Every table of the papers, from no scores at all and from scores of a whole run sheet that are made by hand."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest
from tiny import run_sheet
from tiny.run_sheet import DECLARED, LM, REVERSE, WORDS, at, cells_of, draws, line, score, world, write

from raretokens.errors import UserError
from reproduction.papers.load import written_out
from reproduction.papers.table import Table
from reproduction.papers.task_scores import TaskScores
from reproduction.pipeline.jobs import run_sheet as sheet_of
from reproduction.pipeline.parameters_file import load
from reproduction.report import build
from reproduction.report.tables import to_latex, to_markdown

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> dict[str, TaskScores]:
    return run_sheet.full(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> dict[str, TaskScores]:
    return world(tmp_path_factory.mktemp("none"), {}, {})


@pytest.mark.parametrize("name", DECLARED.tables)
def test_with_every_run_scored_nothing_is_missing_but_what_is_declared_so(name, full):
    table = DECLARED.tables[name]
    declared = {part.absent for part in (*table.columns, *table.rows, *table.subjects, *table.facts)}
    declared |= {column.lacking for column in table.columns}
    allowed = re.compile(
        "is not asked for at this scale|citizens is no single token|text of this scale is|agg names no points"
        "|(awd|mos)-.* names no (parameters|signatures)"
        "|no run named (base-weight-decay|base-freeze-until|copy-iwslt|(awd|mos)-ptb-.*|sg-enwik9-(mle|frage) or .*"
            "|gpt2m-.* or (mu-loss|mu-centering|z-loss)) on" + ("" if DECLARED.is_counted(table) else "|no run named")
    )
    reasons = {cell.reason for cell in cells_of(name, full) if cell.reason} - declared
    assert [reason for reason in reasons if not allowed.search(reason)] == []


@pytest.mark.parametrize("scored", ["empty", "full"])
@pytest.mark.parametrize("name", DECLARED.tables)
def test_latex_has_as_many_cells_in_each_row(name, scored, request):
    cells = cells_of(name, request.getfixturevalue(scored))
    text = to_latex(DECLARED.tables[name], cells, name)
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    columns = re.search(r"\\begin\{tabular\}\{(l+r+)\}", text)[1]
    plain = [re.sub(r"\\[&%$#_{}]", "", line) for line in body]
    assert {line.count("&") + 1 for line in plain} == {len(columns)}
    assert len(body) == len({cell.row for cell in cells}) + 1
    assert not any(re.search(r"[#_%]|†|‡|≠|±|\u2581", line) for line in plain)
    assert all(line.count("{") == line.count("}") for line in plain)
    if scored == "full" and any(cell.runs for cell in cells):
        assert f"reports/runs/{DECLARED.tables[name].task}/" in text.splitlines()[1]


def test_runs_of_words_and_of_the_reverse_direction_keep_apart(full):
    for name, table in DECLARED.tables.items():
        runs = {run for cell in cells_of(name, full) for run in cell.runs.split()}
        if table.task == "lm" and table.also:
            assert runs - {"human"} <= set(WORDS if table.tokens == "words" else LM), name
            assert ("word-other" in runs) == (table.tokens == "words"), name
        if table.task == "nmt" and table.also:
            assert bool(runs & set(REVERSE)) == (name == "cosreg-2"), name
    for cell in cells_of("cosreg-2", full):
        assert all(run.startswith("reverse") == cell.column.startswith("De-En") for run in cell.runs.split()), cell
    assert at(cells_of("cosreg-2", full), "reverse-other", "De-En").status == "not reported"


def test_a_quoted_number_is_marked_cell_by_cell(full, empty):
    transformer = "Base Transformer (Vaswani et al., 2017)"
    assert [at(cells_of("cosreg-2", empty), transformer, side).status for side in ("En-De", "De-En")] == ["quoted", "not run"]
    text = to_markdown(DECLARED.tables["cosreg-2"], cells_of("cosreg-2", full))
    row = next(line for line in text.splitlines() if line.startswith(f"| {transformer} |"))
    assert "(27.30†)" in row and "(31.00)" in row
    assert "no run named reverse-mle on the run sheet" in at(cells_of("cosreg-2", empty), transformer, "De-En").reason


def test_what_ran_is_marked_where_it_is_not_as_printed(full):
    cells = cells_of("agg-11", full)
    status = {(cell.row, cell.column): cell.status for cell in cells}
    assert status["# of layers", "Empirical Study"] == "match"
    assert status["# of layers", "Language Modeling"] == "differs"
    assert status["# of layers", "Machine Translation Base"] == "match"  # 6-6
    assert status["# of parameters", "Empirical Study"] == "match"  # 42M
    assert status["Max tokens per batch", "Empirical Study"] == "match"  # 32k
    assert status["Max tokens per batch", "Machine Translation Base"] == "differs"
    assert status["Learning rate", "Empirical Study"] == "match"
    assert status["Optimizer", "Empirical Study"] == "match"
    assert status["alpha for UL", "Language Modeling"] == "match"  # the default of the objective
    assert status["alpha for UL", "Empirical Study"] == ""  # a dash in the paper
    text = to_markdown(DECLARED.tables["agg-11"], cells)
    assert "| # of layers | **6** (6) | 6 (≠ 24) | **6** (6-6) | **6** (6-6) |" in text
    assert at(cells, "Dropout", "Machine Translation Base").runs == "nmt/base-agg"


def test_a_default_in_a_table_is_the_objective_s_own():
    owners = {"mu1": "agps", "mu2": "agps", "alpha_ul": "ul", "start": "frage", "strength": "frage", "popular": "frage"}
    owners |= {"gamma": "cosreg", "rate": "weight_decay"}
    for table in DECLARED.tables.values():
        for fact in table.facts:
            if fact.default is not None and fact.path.startswith("options."):
                option = fact.path.removeprefix("options.")
                options = importlib.import_module(f"raretokens.objectives.{owners[option]}").OPTIONS
                declared = options.get(option, fact.default)
                assert (declared[0] if isinstance(declared, tuple) else declared) == fact.default, option


def test_the_text_of_the_scale_stands_beside_the_printed_one_or_alone(full):
    write(full["lm"].folder.parent, "lm", "human", score(5.0))
    cells = cells_of("frage-5", full)
    assert list(dict.fromkeys(cell.column for cell in cells)) == ["Penn Treebank", "WikiText-2", "bible"]
    assert [cell.measured for cell in cells if cell.column != "bible"] == [""] * 10
    words = {"train": 2_075_677, "types": 33_278, "oov": 2.57, "with_line_ends": {"train": 2_088_628, "valid": 217_646}}
    scores = world(full["lm"].folder.parent / "wikitext", {}, {})
    write(full["lm"].folder.parent / "wikitext", "lm", "human", {"metrics": {"corpus": words}})
    cells = cells_of("frage-5", scores, corpora={"lm": "wikitext-2", "nmt": "bible"})
    status = {cell.row: cell.status for cell in cells if cell.column == "WikiText-2"}
    assert status == {
        "Tokens, Train": "match",
        "Tokens, Valid": "match",
        "Tokens, Test": "not run",
        "Vocab": "match",
        "OOV": "match",
    }


def test_bleu_has_its_interval_with_one_seed_and_its_range_with_more(tmp_path, full):
    cells = cells_of("agg-6", full)
    assert (at(cells, "AGG", "Base sacreBLEU").spread, at(cells, "AGG", "Base").spread) == ("1.25", "")
    assert (at(cells, "AGG", "Base to MLE").measured, at(cells, "AGG", "Base p").measured) == ("4.00", "0.005")
    for name, bleu, seed in (("base-agg", 20.0, 1), ("base-agg-2", 21.0, 2)):
        write(tmp_path, "nmt", name, {"seed": seed, "metrics": {"bleu": {"sacrebleu": bleu, "interval": 0.9}}})
    for name, seed in (("base-mle", 1), ("base-mle-2", 2)):
        write(tmp_path, "nmt", name, {"seed": seed, "metrics": {"bleu": {"sacrebleu": 19.5}}})
    for name, share in (("base-mle", 1.0), ("base-mle-2", 1.0), ("base-agg", 1.0), ("base-agg-2", 0.15)):
        draws(tmp_path, name, share)
    objectives = {"base-mle": "mle", "base-agg": "agg"}
    lines = {name: line(of, tokens="nmt") for name, of in objectives.items()}
    two = world(tmp_path, {}, lines | {f"{name}-2": one.replaced(seed=2) for name, one in lines.items()})
    cells = cells_of("agg-6", two)
    assert (at(cells, "AGG", "Base sacreBLEU").measured, at(cells, "AGG", "Base sacreBLEU").spread) == ("20.50", "0.50")
    assert (at(cells, "AGG", "Base to MLE").measured, at(cells, "AGG", "Base p").measured) == ("1.00", "0.300")


def test_neighbours_are_compared_without_the_marks_of_either(full):
    cells = cells_of("agps-12", full)
    assert at(cells, "optimum, AGPS", "rank 2").status == "match"  # optimal, reported first
    cells = cells_of("frage-11", full)
    assert at(cells, "internet, original", "semantic 1").measured == "web: 1"
    assert at(cells, "internet, original", "semantic 2").measured == "computer: 14"
    assert at(cells, "citizenship*, original", "semantic 1").measured == "citizen: 3"
    assert "is no single token" in at(cells, "citizenship*, original", "semantic 2").reason
    assert at(cells, "citizenship*, original", "semantic 1").reported == "citizen*: 10745"
    assert at(cells_of("frage-12", full), "citizens, with FRAGE", "rank 2").status == "not run"
    assert at(cells_of("agg-13", full), "optimum, AGG", "shared").measured == "1 of 5"


def test_a_table_needs_its_own_rows_and_nothing_else(full):
    def needed(name: str) -> list[str]:
        return build.dvc_targets(DECLARED.tables[name], full)

    assert needed("agg-3") == ["score-lm@mle", "score-lm@agg", "baseline@lm"]
    assert needed("agps-4") == ["score-lm@word-mle", "score-lm@word-cosreg", "score-lm@word-agps"]
    assert needed("agg-13") == ["score-nmt@base-mle", "score-nmt@base-agg"]
    assert needed("agg-11") == [
        "score-lm@mle",
        "score-lm@agg",
        "score-lm@ul",
        "score-nmt@base-agg",
        "score-nmt@big-agg",
    ]
    assert needed("frage-5") == ["baseline@lm"]
    assert needed("frage-6") == []
    assert "score-nmt@reverse-mle" in needed("cosreg-2") and "score-nmt@reverse-other" not in needed("cosreg-2")


def test_one_table_is_written_alone_and_a_name_amiss_is_told_the_nearest(tmp_path):
    sheet = sheet_of(load(ROOT / "params.yaml"))
    text = build.one_table("agg-3", sheet, DECLARED, tmp_path)
    assert text.startswith("**AGG table 3")
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == ["agg-3.csv", "agg-3.md"]
    assert r"\begin{tabular}" in build.one_table("agg-3", sheet, DECLARED, tmp_path, as_latex=True)
    with pytest.raises(UserError, match=r"^no table 'agg3'; the nearest is agg-3$"):
        build.needed("agg3", sheet, DECLARED, tmp_path)


def test_a_mistake_in_a_table_is_named():
    path = Path("tables/AGG.yaml")
    with pytest.raises(UserError, match="AGG.yaml: agg-1: no list of columns 'geometri'; the nearest is geometry"):
        written_out(path, {"agg-1": {"extras": ["geometri"]}}, {"geometry": []})
    part = {"title": "t", "paper": "p", "place": "p", "reported": "p", "task": "lm"}
    sided = {"title": "B", "metric": "chrf", "side": "En-De"}
    with pytest.raises(ValueError, match="sides are En-De"):
        Table(**part, columns=[sided], rows=[{"title": "r", "runs": {"EnDe": ["a"]}}])
    with pytest.raises(ValueError, match="declare `runs`, or the reason in `absent`"):
        Table(**part, columns=[sided], rows=[{"title": "r"}])


def test_scores_are_read_once(full, monkeypatch):
    read, counted = Path.read_text, Counter()
    fresh = world(full["lm"].folder.parent, full["lm"].lines, full["nmt"].lines)

    def counting(path: Path, *rest, **named) -> str:
        counted[path] += path.suffix == ".json"
        return read(path, *rest, **named)

    monkeypatch.setattr(Path, "read_text", counting)
    for name in DECLARED.tables:
        cells_of(name, fresh)
    assert max(counted.values()) == 1
