"""The checklists of the papers: facts of a run, gaps that are named, and the committed page."""

from pathlib import Path

import pytest
import yaml

from raretokens.papers.declarations import Search
from raretokens.papers.load import load_declarations, load_searches
from raretokens.report import checklist
from raretokens.run import SheetLine
from raretokens.tools.scale_commands import CHECKLIST, checklist_facts

ROOT = Path(__file__).parents[1]
SEARCHES = load_searches(ROOT / "data/paper")


def searched(objective: str, task: str = "lm", **options: object) -> list[Search]:
    line = SheetLine(model="small", objective=objective, seed=1, tokens="lm", options=options)
    return list(checklist._searches(task, line, SEARCHES))


def test_an_option_that_nothing_documents_is_a_named_gap():
    (gap,) = searched("agps", mu1=100.0, mu2=25.0)
    assert (gap.bounds, gap.trials, gap.rule) == ("`mu1`, `mu2`: not recorded", None, "")
    assert [one.bounds for one in searched("agg", alpha=0.03, alpha_scale=3.08, until=5)][1:] == ["`until`: not recorded"]
    assert [one.rule for one in searched("cosreg")] == ["the paper's values"]
    assert searched("spectrum_control", "nmt")[0].bounds == "`strength` 0.1 to 30"


@pytest.mark.parametrize(("keep", "loss"), [("best", "4.333 ± 1.500"), (5, "5.333 ± 1.500")])
def test_the_validation_loss_is_that_of_the_kept_checkpoint(tmp_path, keep, loss):
    files = [tmp_path / f"{name}.csv" for name in "abc"]
    for file, values in zip(files, ((4, 5), (3, 4), (6, 7)), strict=True):
        file.write_text("update,valid_nll\n" + "".join(f"{step},{value}\n" for step, value in enumerate(values)) + "9,\n")
    assert checklist._loss(files, keep) == loss
    assert checklist._loss([tmp_path / "none.csv"], keep) == checklist.UNKNOWN == checklist._hours([], 3)
    assert checklist._hours([1.0, 2.0, 6.0], 4) == "3.00 (3 of 4 seeds known)"


def test_the_trials_of_the_cache_pointer_are_those_of_the_lists():
    tree = yaml.safe_load((ROOT / f"scales/{CHECKLIST}/params.yaml").read_text(encoding="utf-8"))
    lists = tree["recurrent"]["evaluation"]["pointer"]
    pointer = SEARCHES["pointer"]
    assert pointer.trials == len(lists["window"]) * len(lists["theta"]) * len(lists["weight"])
    assert pointer.models == lists["models"]
    for name in ("window", "theta", "weight"):
        assert f"`{name}` {min(lists[name]):g} to {max(lists[name]):g}" in pointer.bounds


def test_sources_exist_and_every_paper_has_rows():
    assert all((ROOT / search.source).is_file() for search in SEARCHES.values())
    facts = checklist_facts(ROOT, CHECKLIST, load_declarations(ROOT / "data/paper"))
    found = checklist.rows(facts)
    assert {row["paper"] for row in found} == set(facts.declared.papers)
    (agg,) = (row for row in found if (row["paper"], row["run"]) == ("AGG", "agg"))
    assert float(agg["kwh"]) == pytest.approx(3 * float(agg["hours"]) * checklist.WATTS / 1000, rel=0.05)
