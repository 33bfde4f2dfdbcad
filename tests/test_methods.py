"""What methods buy and cost, on scores made by hand."""

import io
import json
import math
from pathlib import Path

import pandas as pd
from tiny.run_sheet import DECLARED, line

from raretokens.reporting import methods
from raretokens.reporting.scored import Scores

PPL = {"mle": [50.0, 51.0, 49.0], "agg": [55.0, 56.5, 53.5]}  # over three seeds
I_W = {"mle": [0.5, 0.51, 0.49], "agg": [0.8, 0.5, 0.3]}


def world(folder: Path) -> dict[str, Scores]:
    folder.mkdir()
    names = {f"{run}-{seed}": line(run, seed=seed) for run in PPL for seed in (1, 2, 3)}
    names |= {"other-size": line("agg", size="big"), "coupled": line("coupled_adam")}
    for name, its in names.items():
        run = its.objective if its.objective in PPL else "mle"
        metrics = {"ppl": {"total": PPL[run][its.seed - 1]}, "isotropy": {"total": I_W[run][its.seed - 1]}}
        (folder / f"{name}.json").write_text(json.dumps({"seed": its.seed, "metrics": metrics}))
    return {"lm": Scores("lm", names, folder)}


def test_a_change_is_marked_where_the_seeds_agree_on_its_side(tmp_path):
    changes = {(change.run, change.metric): change for change in methods.changes(DECLARED, world(tmp_path / "lm"))}
    assert {run for run, _ in changes} == {"agg-1", "coupled"}  # no maximum likelihood of the other size
    dearer, wide, same = (
        changes[key] for key in (("agg-1", "ppl.total"), ("agg-1", "isotropy.total"), ("coupled", "ppl.total"))
    )
    ratio = math.exp(sum(math.log(a / b) for a, b in zip(PPL["agg"], PPL["mle"], strict=True)) / 3)
    assert (dearer.verdict, dearer.seeds, dearer.ours) == ("worse", "3", f"{ratio:.4g}")
    assert float(dearer.seeds_low) > 1
    assert (wide.verdict, same.verdict) == ("undecided", "undecided")


def test_the_page_has_a_row_a_run_with_what_is_marked(tmp_path):
    changes = methods.changes(DECLARED, world(tmp_path / "lm"))
    (row,) = [text for text in methods.to_markdown(changes).splitlines() if text.startswith("| agg-1 ")]
    assert row == "| agg-1 | 3 | x 1.1 ▼ | +0.0333 | nothing measurable | PPL x 1.1 |"
    table = pd.read_csv(io.StringIO(methods.to_csv(changes)))
    assert list(table.verdict) == ["worse", "undecided", "undecided", "undecided"] and "share" not in table
