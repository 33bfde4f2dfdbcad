"""What `python -m reproduction plots` draws: a panel for each family of runs, on a page that needs no network."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tiny import world
from tiny.run_sheet import line, score, write

from reproduction.papers.task_scores import TaskScores
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
    command = [sys.executable, "-m", "reproduction", "plots", "--out", "page"]
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    asked, complaints = [], []
    window = browser.new_page()
    window.on("request", lambda request: asked.append(request.url) if request.url.startswith("http") else None)
    window.on("pageerror", lambda error: complaints.append(str(error)))
    window.goto((tmp_path / "page/index.html").as_uri())
    window.locator(".mark-line path").first.wait_for()
    assert (asked, complaints) == ([], [])
    lines = "cells => cells.map(cell => cell.querySelectorAll('.mark-line path').length)"
    assert sorted(window.eval_on_selector_all(".child_pathgroup", lines)) == [1, 2, 2]  # mu_loss, mle, freeze
    words = set(window.locator("svg text").all_text_contents())
    assert {"mle", "freeze", "mu_loss", "freeze-b", "mu-loss"} <= words and "mle-2" not in words
    window.close()
