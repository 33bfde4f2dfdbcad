"""The guides of docs/, performed on a copy of the tiny world: each does exactly what its page says, and sees what comes out."""

import csv
import json
import re
from pathlib import Path

import pytest
import yaml
from test_dvc import arrows, reached, rooms
from tiny.guide import ROOT, follow
from tiny.world import create, draw_only, run

pytestmark = pytest.mark.slow
RUNNING = re.compile(r"Running stage '([^']+)'")
PAGES = ("add-a-metric", "add-a-figure", "add-a-corpus", "add-an-architecture", "add-a-task")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """One language model and one translation model, and a figure."""
    folder = create(tmp_path_factory.mktemp("world"))
    change(folder / "params.yaml", lambda tree: keep(tree["runs"]["lm"], "mle") | keep(tree["runs"]["nmt"], "base-mle"))
    draw_only(folder, ("agg-figure-3",))
    run(folder, "dvc", "repro")
    run(folder, "git", "add", "-A")
    run(folder, "git", "add", "--force", "reports")
    run(folder, "git", "commit", "-qm", "built")
    return folder


def page(name: str) -> str:
    return (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")


def change(file: Path, edit) -> None:
    tree = yaml.safe_load(file.read_text())
    edit(tree)
    file.write_text(yaml.safe_dump(tree, sort_keys=False))


def keep(tree: dict, *names: str) -> dict:
    for name in [name for name in tree if name not in names]:
        del tree[name]
    return tree


def repro(folder: Path) -> list[str]:
    return RUNNING.findall(run(folder, "dvc", "repro").stdout)


def score(folder: Path, run: str) -> dict:
    return json.loads((folder / f"reports/runs/{run}.json").read_text())


def cells(folder: Path, table: str) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / f"reports/tables/{table}.csv").read_text().splitlines()))


def test_a_metric_is_three_files_and_scores_every_run_again(built):
    assert len(set(follow("add-a-metric", built))) == 3
    assert repro(built) == ["jobs", "score-lm@mle", "score-nmt@base-mle", "report"]
    number = score(built, "lm/mle")["metrics"]["rare_length"]
    assert number > 0 and ["rare_length", "norm:2|rows:no-pad-no-fillers"] in score(built, "lm/mle")["signatures"]
    assert "rare_length" in score(built, "nmt/base-mle")["metrics"]
    shown = {cell["row"]: cell["measured"] for cell in cells(built, "agg-3") if cell["column"] == "rare to frequent length"}
    assert shown["MLE"] == f"{number:.3f}"


def test_a_figure_is_one_file_and_no_run_is_scored_again_for_a_curve(built):
    assert follow("add-a-figure", built) == ["data/paper/figures.yaml"]
    assert repro(built) == ["jobs", "report"]
    assert (built / "reports/figures/own-figure-1.svg").read_text().startswith("<?xml")
    rows = list(csv.DictReader((built / "reports/figures/own-figure-1.csv").read_text().splitlines()))
    assert {(row["panel"], row["run"], row["group"]) for row in rows} == {("rare rows", "MLE", "rare")}
    assert [row["x"] for row in rows] == ["0", "4", "8", "12"]
    assert "figures/own-figure-1.svg" in (built / "reports/index.md").read_text()


@pytest.fixture(scope="module")
def grown(built) -> tuple[Path, list[str], dict[str, set[str]]]:
    """With the corpus, the architecture and the task; what ran, and which files each page touches."""
    touched = {page: set(follow(page, built)) for page in ("add-a-corpus", "add-an-architecture", "add-a-task")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RARETOKENS_MIRROR", str(ROOT / "docs/examples/corpus"))
        return built, repro(built), touched


def test_nothing_that_was_trained_is_trained_again(grown):
    _, ran, _ = grown
    assert {stage for stage in ran if stage.startswith("train-")} == {
        "train-lm@rhymes-mle",
        "train-lm@gru-mle",
        "train-backwards@backwards-mle",
    }
    same = {"encode@lm", "encode@words", "encode@nmt", "align@nmt", "predict-lm@mle", "translate@base-mle", "score-lm@mle"}
    assert same & {*ran} == set()


def test_a_corpus_is_a_source_a_file_and_lines_of_params(grown):
    folder, ran, touched = grown
    assert len(touched["add-a-corpus"]) == 3
    assert {"fetch@rhymes", "prepare@rhymes", "encode@rhymes", "baseline@rhymes"} < {*ran}
    counts = json.loads((folder / "data/corpus/rhymes/counts.json").read_text())
    assert {split: row["lines"] for split, row in counts["splits"].items()} == {"train": 36, "valid": 12, "test": 12}
    meta = json.loads((folder / "data/tokens/rhymes/meta.json").read_text())
    assert meta["splits"]["train"]["lines"] == 36
    assert score(folder, "lm/human-rhymes")["metrics"]["tokens"]["train"] == meta["splits"]["train"]["tokens"]


def test_a_run_on_a_second_corpus_is_scored_and_stays_out_of_tables_of_the_first(grown):
    folder, *_ = grown
    scored = score(folder, "lm/rhymes-mle")
    rows = json.loads((folder / "data/tokens/rhymes/meta.json").read_text())["vocabulary"]
    assert ["vocabulary", rows] in scored["parameters"] and scored["metrics"]["ppl"]["total"] > 1
    assert {cell["row"] for cell in cells(folder, "agg-3")} >= {"MLE", "gru-mle"}
    assert "rhymes-mle" not in {cell["row"] for cell in cells(folder, "agg-3")}


def test_an_architecture_is_one_file_a_size_and_a_line(grown):
    folder, ran, touched = grown
    assert touched["add-an-architecture"] == {"src/reproduction/training/models/gru.py", "params.yaml"}
    assert {"train-lm@gru-mle", "predict-lm@gru-mle", "score-lm@gru-mle"} < {*ran}
    metrics = score(folder, "lm/gru-mle")["metrics"]
    assert metrics["ppl"]["total"] > 1 and metrics["continuation"]["uniq"] >= 1


def test_a_task_is_its_file_parameters_and_a_group_of_stages(grown):
    folder, _, touched = grown
    assert touched["add-a-task"] == {"src/reproduction/tasks/backwards.py", "params.yaml", "dvc.yaml"}
    scored = score(folder, "backwards/backwards-mle")
    assert scored["task"] == "backwards" and scored["metrics"]["valid_nll"] > 0
    assert scored["metrics"]["isotropy"]["total"] > 0
    assert (folder / "reports/plots/backwards.csv").read_text().startswith("run,update,nll")
    assert "](runs/backwards): 1 run\n" in (folder / "reports/index.md").read_text()


def test_the_picture_of_the_code_is_the_code():
    """Rooms and arrows of docs/architecture.md; what can be reached by a longer way has none. Arrows of a package lead down."""
    folders, found = {*rooms()}, arrows()
    uses = {name: found[name] & folders for name in folders}
    direct = {
        (one, other)
        for one, used in uses.items()
        for other in used
        if not any(other in reached(uses, between) for between in used - {other})
    }
    rows = dict(re.findall(r"^\| `(\w+/\w+)` \|[^|]*\| *([^|]*?) *\|$", page("architecture"), re.MULTILINE))
    drawn = {(one, other) for one, others in rows.items() for other in re.findall(r"\w+/\w+", others)}
    assert ({*rows}, drawn) == (folders, direct)
    order = [*rows]
    assert all(order.index(one) < order.index(other) for one, other in drawn if Path(one).parent == Path(other).parent)


def test_every_file_that_the_picture_names_is_there():
    names = re.findall(r"`((?:raretokens|reproduction|data)/[\w/.]+)`", page("architecture"))
    assert len({*names}) > 40
    assert [name for name in names if not ((ROOT / "src" / name).exists() or (ROOT / name).exists())] == []
