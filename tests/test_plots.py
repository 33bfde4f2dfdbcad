"""What `dvc plots show` draws: a panel for each family of runs, on a page that needs no network."""

import shutil
from pathlib import Path

from tiny import world
from tiny.run_sheet import line, score, write

from reproduction.papers.scores import TaskScores
from reproduction.report.build import curves_of_all_runs

ROOT = Path(__file__).parents[1]
OBJECTIVES = {"mle": "mle", "mle-2": "mle", "freeze": "freeze", "freeze-b": "freeze_b", "mu-loss": "mu_loss"}


def test_a_page_of_plots_has_a_panel_for_each_family_and_loads_nothing(tmp_path, browser):
    scores = TaskScores({name: line(objective) for name, objective in OBJECTIVES.items()}, task="lm", folder=tmp_path / "runs/lm")
    for place, name in enumerate(OBJECTIVES):
        write(tmp_path / "runs", "lm", name, score(1.0))
        (tmp_path / f"{name}.csv").write_text(f"update,nll\n1,{place + 3}\n2,\n3,{place + 1}\n")
    (tmp_path / "plots.csv").write_text(curves_of_all_runs(scores, tmp_path))
    (tmp_path / "dvc.yaml").write_text("plots: [loss: {template: runs, x: update, y: {plots.csv: nll}}]\n")
    shutil.copytree(ROOT / ".dvc", tmp_path / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp"))
    world.run(tmp_path, "git", "init", "-q")
    world.run(tmp_path, "dvc", "plots", "show", "-o", "page")
    asked, complaints = [], []
    window = browser.new_page()
    window.on("request", lambda request: asked.append(request.url))
    window.on("pageerror", lambda error: complaints.append(str(error)))
    window.goto((tmp_path / "page/index.html").as_uri())
    assert (len(asked), complaints) == (1, [])
    assert window.locator("figcaption").all_inner_texts() == ["mle", "freeze", "mu loss"]
    assert window.locator("figure").nth(1).locator("li").all_inner_texts() == ["freeze", "freeze-b"]
    told = [window.locator("figure").nth(place).locator("path title").all_text_contents() for place in (0, 1)]
    assert told[0] == ["mle, workspace: 1 at 3", "mle-2, workspace: 2 at 3"]
    assert told[1] == ["freeze, workspace: 3 at 3", "freeze-b, workspace: 4 at 3"]
    window.close()
