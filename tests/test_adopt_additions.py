"""Metrics that new code adds to score files: `adopt` allows them, and nothing else."""

import json
from copy import deepcopy

import pytest

from reproduction.pipeline.records import added_metrics, lacking, record_added, without_covered

SCORE = {
    "run": "mle",
    "metrics": {"ppl": {"total": 9.5, "rare": None}, "mean_cosine": 0.25},
    "neighbours": [["sea", [["ocean", 0.5, "rare"]]]],
    "signatures": [["ppl", "log:e"], ["mean_cosine", "pairs:distinct"], ["neighbours", "top:5"]],
}
BOOTSTRAP = "ppl.total,ppl.rare\n9.4,\n9.6,31\n"
POINTS = "series,group,x,y\nnll,train,1,2.5\nisotropy,rare,1,0.5\n"


def changed(*path: str | int, to: object) -> bytes:
    """The score file with one entry changed, or a new entry."""
    tree = deepcopy(SCORE)
    node = tree
    for key in path[:-1]:
        node = node[key]
    if isinstance(node, list) and path[-1] == len(node):
        node.append(to)
    else:
        node[path[-1]] = to
    return json.dumps(tree).encode()


@pytest.mark.parametrize(
    ("new", "added"),
    [
        (changed("metrics", "norm_rms", to={"total": 2.0, "rare": None}), {"norm_rms.total", "norm_rms.rare"}),
        (changed("metrics", "ppl", "freq", to=7.5), {"ppl.freq"}),
        (changed("signatures", 3, to=["norm_rms", "norm:2"]), {"norm_rms"}),
        (changed("metrics", "mean_cosine", to=0.250001), None),
        (changed("metrics", "mean_cosine", to="0.25"), None),
        (changed("metrics", "mean_cosine", to={"total": 0.25}), None),
        (changed("metrics", "ppl", "rare", to=1.5), None),  # it had no value
        (changed("metrics", "ppl", to={"total": 9.5, "freq": 7.5}), None),  # one was removed
        (changed("signatures", 0, to=["ppl", "log:2"]), None),
        (changed("signatures", 3, to=["ppl.total", "log:2"]), None),  # a former metric gets another signature
        (changed("neighbours", 0, to=["sea", []]), None),
        (changed("seed", to=1), None),
        (b'{"run": "mle"}', None),
        (b"{", None),
    ],
    ids=range(14),
)
def test_a_score_file_may_gain_metrics_and_signatures_alone(new, added):
    assert added_metrics("reports/runs/lm/mle.json", json.dumps(SCORE).encode(), new) == added


@pytest.mark.parametrize(
    ("old", "new", "added"),
    [
        (BOOTSTRAP, "ppl.total,norm_rms.rare,ppl.rare\n9.4,1,\n9.6,2,31\n", {"norm_rms.rare"}),
        (BOOTSTRAP, "ppl.total,ppl.rare,x\n9.4,,1\n9.6,32,2\n", None),
        (BOOTSTRAP, "ppl.rare,ppl.total,x\n,9.4,1\n31,9.6,2\n", None),
        (BOOTSTRAP, f"{BOOTSTRAP}9.5,30\n", None),  # more resampled texts are no metric
        (BOOTSTRAP, "ppl.total,x\n9.4,1\n9.6,2\n", None),
        (POINTS, f"{POINTS}isotropy_unit_rms,rare,1,0.7\n", {"isotropy_unit_rms"}),
        (POINTS, f"{POINTS}isotropy,rare,2,0.4\n", None),
        (POINTS, POINTS.replace("0.5", "0.6") + "isotropy_unit_rms,rare,1,0.7\n", None),
        (POINTS, "", None),
    ],
    ids=range(9),
)
def test_a_csv_file_may_gain_columns_or_series_alone(old, new, added):
    assert added_metrics("reports/runs/lm/mle.csv", old.encode(), new.encode()) == added


def test_a_metric_names_its_groups():
    assert without_covered({"norm_rms.total", "norm_rms", "ppl.freq", "norm_rms_more.total"}) == [
        "norm_rms", "norm_rms_more.total", "ppl.freq"
    ]  # fmt: skip


def test_the_score_files_that_lack_an_added_metric_are_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lacking({"score-lm": ["mle.json"]}) == {}  # nothing was ever added
    record_added({"score-lm": {"norm_rms.total", "norm_rms.rare", "norm_rms"}})
    record_added({"score-nmt": {"iso_score"}})
    files = {"score-lm": ["mle.json", "agg.json", "gone.json", "mle.bootstrap.csv"], "score-nmt": ["base.json"]}
    for name in ("mle", "agg", "base"):
        (tmp_path / f"{name}.json").write_text(json.dumps(SCORE))
    (tmp_path / "agg.json").write_bytes(changed("signatures", 3, to=["norm_rms", "norm:2"]))
    (tmp_path / "mle.bootstrap.csv").write_text(BOOTSTRAP)
    assert lacking(files) == {"iso_score": 1, "norm_rms": 1}
