"""Tables from scores made by hand; the project's own declarations against the printed numbers."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from raretokens import config
from raretokens.reporting import report
from raretokens.reporting.cells import run_cells as cells
from raretokens.reporting.declarations import reading as declarations
from raretokens.reporting.scored import Scores
from raretokens.reporting.tables import include, render

ROOT = Path(__file__).parents[1]
PRINTED = ROOT / "data/paper"
DECLARED = declarations.read(PRINTED)


def line(objective: str, seed: int | None = None) -> config.RunLine:
    return config.RunLine(size="demo", objective=objective, knob="seed", seed=seed)


def scores(folder: Path, task: str, runs: dict[str, dict], sheet: dict[str, config.RunLine]) -> Scores:
    (folder / task).mkdir(parents=True, exist_ok=True)
    for name, (seed, metrics) in runs.items():
        (folder / task / f"{name}.json").write_text(json.dumps({"seed": seed, "metrics": metrics}))
    return Scores.of(SimpleNamespace(runs=SimpleNamespace(**{task: sheet})), task, folder)


@pytest.fixture
def world(tmp_path) -> Scores:
    def ppl(rare: float, total: float, iw: float) -> dict:
        return {"ppl": {"rare": rare, "total": total}, "isotropy": {"total": iw}}

    runs = {
        "mle": (1, ppl(800.0, 20.0, 0.30)),
        "mle-2": (2, ppl(820.0, 22.0, 0.34)),
        "freeze": (1, ppl(3000.0, 20.77, 0.70)),
        "mine": (1, ppl(10.0, 5.0, 0.99)),
    }
    sheet = {"mle": line("mle"), "mle-2": line("mle", 2), "freeze": line("freeze"), "mine": line("mine")}
    return scores(tmp_path, "lm", runs, sheet)


def by_place(found: list[cells.Cell]) -> dict[tuple[str, str], cells.Cell]:
    return {(cell.row, cell.column): cell for cell in found}


def test_a_cell_is_the_mean_over_seeds_beside_the_printed_number(world):
    found = by_place(cells.cells(DECLARED, DECLARED.tables["agg-1"], world, PRINTED))
    mle = found["MLE", "PPL Rare"]
    assert (mle.ours, mle.spread, mle.paper, mle.delta, mle.runs) == ("810.00", "10.00", "813.76", "-3.76", "mle mle-2")
    assert mle.status == "match"
    assert found["Freeze", "I(W) Total"].status == "match"  # 0.70 against 0.739, within 0.08
    assert found["MLE", "PPL Total"].status == "match"  # 21.00 against 20.77, within 2 %
    assert found["Freeze", "PPL Freq"].status == "not run"  # no such score


def test_other_runs_follow_and_rows_without_a_run_say_why(world):
    table = DECLARED.tables["agg-2"]
    found = by_place(cells.cells(DECLARED, table, world, PRINTED))
    assert found["mine", "PPL Rare"].status == "ours only"
    assert found["Freeze (b)", "PPL Rare"].status == "not run"
    assert found["Freeze (b)", "PPL Rare"].reason == "no run named lm6-freeze-b or freeze-b on the run sheet"
    assert found["Freeze (b)", "PPL Rare"].paper == "65.76"
    rows = list(dict.fromkeys(row for row, _ in found))
    assert rows == [
        "MLE",
        "Freeze (b) & (c)",
        "Freeze (b)",
        "Freeze (c)",
        "mine",
    ]  # freeze has its row in another table


def test_quoted_rows_keep_their_mark_and_take_our_number(tmp_path):
    world = scores(tmp_path, "nmt", {"base-mle": (1, {"bleu": {"tokenised": 20.0}})}, {"base-mle": line("mle")})
    table = DECLARED.tables["agg-6"]
    found = by_place(cells.cells(DECLARED, table, world, PRINTED))
    transformer, spectrum = "Transformer (Vaswani et al., 2017)", "SC (Wang et al., 2020)"
    assert found[transformer, "Base"].status == "differs"
    assert found[transformer, "Big"].status == "quoted"
    assert found[spectrum, "Base"].status == "quoted"
    text = render.to_markdown(table, list(found.values()))
    assert "20.00 (27.30†)" in text and "— (28.45†)" in text


def test_the_grid_shows_ours_and_print(world):
    table = DECLARED.tables["agg-1"]
    text = render.to_markdown(table, cells.cells(DECLARED, table, world, PRINTED))
    assert "| MLE |  — (16.58)".replace("  ", " ") in text
    assert "**810.00 ± 10.00** (813.76)" in text


@pytest.mark.parametrize("folder", [".", "scales/small", "scales/paper"])
def test_each_scale_can_name_itself(folder):
    assert config.load(ROOT / folder / "params.yaml").scale in DECLARED.scales


def test_a_mistake_in_a_declaration_names_file_key_and_value(tmp_path):
    shutil.copytree(PRINTED, tmp_path, dirs_exist_ok=True)
    tree = yaml.safe_load((PRINTED / "claims/AGG.yaml").read_text())
    tree["agg-raises-isotropy"]["left"]["metric"] = "isotropie.total"
    (tmp_path / "claims/AGG.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(config.UserError, match=r"claims/AGG.yaml: agg-raises-isotropy: metric 'isotropie.total'"):
        declarations.read(tmp_path)
    tree["agg-raises-isotropy"]["expect"] = "bigger"
    (tmp_path / "claims/AGG.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(config.UserError, match=r"claims/AGG.yaml: agg-raises-isotropy.expect: 'bigger'"):
        declarations.read(tmp_path)
    tree = yaml.safe_load((PRINTED / "claims/AGG.yaml").read_text())
    tree["agg-improves-bleu"]["left"]["runs"] = ["base-agf"]
    (tmp_path / "claims/AGG.yaml").write_text(yaml.safe_dump({"agg-improves-bleu": tree["agg-improves-bleu"]}))
    (tmp_path / "figures.yaml").write_text("{}")
    with pytest.raises(config.UserError, match=r"agg-improves-bleu.left.runs: run 'base-agf' .* nearest is base-agg"):
        declarations.read(tmp_path)
    (tmp_path / "claims/AGG.yaml").write_text("a: [")
    with pytest.raises(config.UserError, match=r"claims/AGG.yaml: not YAML: [^\n]+$"):
        declarations.read(tmp_path)


def test_the_report_of_an_empty_world_says_not_run(tmp_path):
    parameters = config.load(ROOT / "params.yaml")
    report.write(parameters, DECLARED, PRINTED, tmp_path)
    assert f"{len(DECLARED.claims)} not run" in (tmp_path / "index.md").read_text()
    assert json.loads((tmp_path / "headline.json").read_text())["agg"] == {}


def test_the_readme_takes_its_tables_from_the_reports(tmp_path):
    (tmp_path / "t.md").write_text("fresh\n")
    text = "a\n<!-- include t.md -->\nstale\n<!-- end -->\nb\n"
    assert include.refresh(text, tmp_path) == "a\n<!-- include t.md -->\nfresh\n<!-- end -->\nb\n"


def test_the_readme_shows_the_committed_tables():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert include.refresh(text, ROOT) == text, "run `stages/run 1 report --readme README.md`"
