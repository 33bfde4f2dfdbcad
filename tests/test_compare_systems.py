"""Two systems compared without claims: known answers, matched items, CSV, coverage and power in simulation, mistakes."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from raretokens.claims import item_scores
from raretokens.claims.compare_systems import MetricComparison, better, compare, detectable_difference
from raretokens.claims.item_scores import RunScores
from raretokens.claims.score_files import read
from raretokens.cli import RARETOKENS
from raretokens.errors import UserError

ROOT = Path(__file__).parents[1]


def run(system: str, metrics: dict, seed: int | None = None, **more) -> tuple[str, RunScores]:
    return f"{system}.json", RunScores(system=system, seed=seed, metrics=metrics, **more)


def compared(*runs: tuple[str, RunScores]) -> dict[str, MetricComparison]:
    return {one.metric: one for one in compare(runs)[1]}


def printed(capsys, *words: str) -> str:
    arguments = RARETOKENS.parser(["claims"]).parse_args(["claims", *words])
    arguments.function(arguments)
    return capsys.readouterr().out


def test_fixed_models_have_the_interval_and_power_of_a_paired_t_test():
    random = np.random.default_rng(0)
    a = random.normal(size=400)
    gains = {"acc": 0.2, "loss": -0.2, "tone": 0.0}
    scores = {metric: (a + gain + random.normal(0, 0.5, 400)).tolist() for metric, gain in gains.items()}
    found = compared(run("b", dict.fromkeys(gains, a.tolist())), run("a", scores))
    assert [one.conclusion for one in found.values()] == ["B is higher", "B is lower", "no difference shown"]
    for metric, one in found.items():
        exact = stats.ttest_rel(scores[metric], a)
        error = np.std(np.array(scores[metric]) - a, ddof=1) / 20
        assert one.interval == pytest.approx(tuple(exact.confidence_interval()), abs=0.1 * error)
        assert one.verdict.p == pytest.approx(exact.pvalue, rel=0.3)
        assert one.detectable == pytest.approx((stats.t.ppf(0.975, 399) + stats.norm.ppf(0.8)) * error, rel=0.03)
    expected = stats.false_discovery_control([one.verdict.p for one in found.values()])
    assert [one.verdict.q for one in found.values()] == pytest.approx(list(expected))


def test_items_are_matched_by_name_and_the_others_are_counted():
    scores = np.random.default_rng(1).normal(size=(2, 50))
    names = [f"q{place}" for place in range(50)]
    both = compared(run("a", {"f1": scores[0, :40].tolist()}, items=names[:40]),
                    run("b", {"f1": scores[1, :40].tolist()}, items=names[:40]))["f1"]  # fmt: skip
    back = scores[1, ::-1].tolist()
    found = compared(run("a", {"f1": scores[0, :40].tolist()}, items=names[:40]), run("b", {"f1": back}, items=names[::-1]))["f1"]
    assert (found.items, found.dropped, found.interval) == (40, 10, both.interval)
    assert found.note == "10 items are not in all runs and are left out"


def test_seeds_of_one_system_do_not_count_and_one_seed_decides_nothing():
    random = np.random.default_rng(2)
    runs = [run(system, {"acc": (random.normal(size=100) + gain).tolist()}, seed)
            for system, gain, seeds in (("a", 0, (1, 2, 3, 4)), ("b", 5, (1, 2, 3))) for seed in seeds]  # fmt: skip
    found = compared(*runs)["acc"]
    assert (found.verdict.effect.seeds, found.conclusion) == (3, "B is higher")
    assert found.note == "seeds of one system only do not count: 4"
    found = compared(runs[0], runs[4])["acc"]
    assert (found.conclusion, found.verdict.p, found.detectable) == ("no difference shown", None, None)
    assert found.interval.low > 4 and found.note.endswith("; the interval is that of the items alone")


def test_equal_scores_have_no_interval_without_width():
    found = compared(run("a", {"acc": [1, 0, 1]}), run("b", {"acc": [1, 0, 1]}))["acc"]
    assert (found.interval, found.detectable, found.conclusion) == (None, None, "no difference shown")
    assert "exactly no change" in found.note


@pytest.mark.parametrize("width", [150, 120, 80, 60])
def test_a_narrow_terminal_has_whole_numbers_and_names(tmp_path, capsys, monkeypatch, width):
    monkeypatch.chdir(tmp_path)
    name = "gsm8k.strict-match,exact_match"
    for system, seed in {"a": 4, "b": 5}.items():
        scores = np.random.default_rng(seed).normal(size=60).tolist()
        (tmp_path / f"{system}.json").write_text(json.dumps({"system": system, "metrics": {name: scores, "[b]:x:": scores}}))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    out = re.sub(r"\x1b\[[\d;]*m", "", printed(capsys, "a.json", "b.json"))  # without bold letters
    one = json.loads(printed(capsys, "a.json", "b.json", "--json"))[0]
    assert max(map(len, out.splitlines())) <= width
    cells = (f"{one['difference']:+.3g}", f"{one['low']:+.3g} to {one['high']:+.3g}", "no difference shown", "[b]:x:", "gsm8k")
    assert all(cell in out for cell in cells) and "\u2026" not in out
    assert (" p " in out, "left out at this width: p" in out) == {150: (True, False), 60: (True, False)}.get(width, (False, True))


@pytest.mark.parametrize("form", ["--json", "--csv", ""])
def test_a_table_as_text_json_or_csv(tmp_path, capsys, monkeypatch, form):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(3)
    for system, gain in {"small": 0.0, "big": 0.3}.items():
        lines = ["id,seed,cluster,prompt,exact_match,nll"]
        for seed in (1, 2, 3):
            scores = zip(random.random(60) < 0.4 + gain, random.normal(3 - gain, 0.1, 60), strict=True)
            lines += [f'q{place},{seed},c{place // 2},"one, two",{right},{nll:.3f}' for place, (right, nll) in enumerate(scores)]
        Path(f"{system}.csv").write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    out = printed(capsys, "small.csv", "big=big.csv", *filter(None, [form]))
    if not form:
        assert out.startswith("A: small\nB: big\n") and "B is higher" in out and "B is lower" in out
        return
    rows = json.loads(out, parse_constant=pytest.fail) if form == "--json" else list(csv.DictReader(io.StringIO(out)))
    assert [(row["metric"], row["better"], row["verdict"]) for row in rows] == [
        ("exact_match", "higher", "B is higher"), ("nll", "lower", "B is lower"),
    ]  # fmt: skip
    assert [(int(row["items"]), int(row["seeds"])) for row in rows] == [(60, 3)] * 2
    assert all(float(row["low"]) < float(row["difference"]) < float(row["high"]) for row in rows)
    runs = [one for _, one in read("small.csv")]
    assert [one.seed for one in runs] == [1, 2, 3] and runs[0].clusters[:3] == ["c0", "c0", "c1"]
    assert set(runs[0].metrics["exact_match"]) == {0.0, 1.0}


def test_a_table_of_all_systems_has_a_column_of_their_names(tmp_path):
    (tmp_path / "all.csv").write_text("system,item,seed,acc\nA,x,1,1\nB,x,1,0\nA,x,2,1\nB,x,2,1\n")
    runs = [run for _, run in read(f"{tmp_path}/all.csv")]
    assert [(run.system, run.seed, run.items, run.metrics["acc"]) for run in runs] == [
        ("A", 1, ["x"], [1.0]), ("B", 1, ["x"], [0.0]), ("A", 2, ["x"], [1.0]), ("B", 2, ["x"], [1.0]),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "separator"), [("a.tsv", "\t"), ("a.csv", "\t"), ("a.csv", ";")])
def test_a_table_may_have_tabs_or_semicolons(tmp_path, name, separator):
    lines = ['"item",acc,"a, b;"', "x,1,0.5", "y,0,2"]
    text = "\n".join(separator.join(next(csv.reader([line]))) for line in lines[1:])
    (tmp_path / name).write_text(f'\ufeff"item"{separator}acc{separator}"a, b;"\n{text}\n', encoding="utf-8")
    ((_, run),) = read(f"{tmp_path}/{name}")
    assert (run.items, run.metrics) == (["x", "y"], {"acc": [1, 0], "a, b;": [0.5, 2]})


def test_directions_are_those_of_known_names_only():
    known = {"task.pattern": "higher", "task.answer": "higher", "answer": "unknown", "task.no_answer": "unknown",
             "ndcg@10": "higher", "qa_f1_score": "higher", "word_error_rate": "lower", "arc.acc_norm": "higher",
             "lambada.strict.perplexity": "lower", "wikitext.word_perplexity": "lower",
             "ppl.rare": "lower", "top5_accuracy": "higher", "accuracy_drop": "unknown", "length": "unknown"}  # fmt: skip
    assert {metric: better(metric) for metric in known} == known


# Seeds (1: fixed models), items and kind of scores; each kind has each number of items.
CELLS = [(1, 30, "real"), (1, 300, "binary"), (1, 3000, "binary"), (2, 30, "binary"), (2, 300, "real"), (3, 30, "real"),
         (3, 3000, "binary"), (5, 300, "binary"), (5, 30, "binary"), (10, 30, "real"), (10, 3000, "real")]  # fmt: skip
REPLICATES = 200


def test_intervals_cover_the_true_difference(monkeypatch):
    """Of a cell, 200 replicates can tell 95 from 88 %; of all together, from 93 and 97 %."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(item_scores, "RESAMPLES", 1000)
    import interval_coverage as simulation

    shares, count = {}, 0
    for seeds, items, kind in CELLS:
        covered, known = simulation.coverage(simulation.Cell(kind, 1, seeds, items), REPLICATES)
        shares[seeds, items, kind] = covered / known
        count += covered
        assert known >= (0.88 if seeds == 2 else 1.0) * REPLICATES
        assert covered >= stats.binom.ppf(0.0005, known, 0.94), (seeds, items, kind)
    whole = np.mean(list(shares.values()))
    assert 0.937 < whole < 0.972, shares


@pytest.mark.parametrize(
    ("seeds", "deviation", "least", "most"), [(1, 0.05, 0.7, 0.9), (3, 0.5, 0.6, 0.85), (2, 0.5, 0.35, 0.65)]
)
def test_the_detectable_difference_is_shown_in_four_of_five_comparisons(monkeypatch, seeds, deviation, least, most):
    """With few seeds in fewer, because they estimate the variance between seeds."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(item_scores, "RESAMPLES", 1000)
    import interval_coverage as simulation

    monkeypatch.setattr(simulation, "SEED", deviation)
    scores, truths = simulation.draw(simulation.Cell("real", 1, seeds, 100), 240, np.random.default_rng(seeds))
    scores[:, 1] -= truths[:, None, None]
    size = np.median([one for one in map(detectable_difference, simulation.compare_all(scores[:40])) if one])
    scores[:, 1] += size
    shown = [bool(one.interval and one.interval.low > 0) for one in simulation.compare_all(scores[40:])]
    assert least < np.mean(shown) < most


FILES = {
    "a.csv": "item,acc\nx,1\ny,0\n",
    "b.csv": "item,acc\nx,0\ny,0\n",
    "other.csv": "item,f1\nx,0\ny,0\n",
    "items.csv": "item,acc\nv,0\nw,0\n",
    "short.json": '{"system": "short", "metrics": {"acc": [1, 0, 1]}}',
    "long.json": '{"system": "long", "metrics": {"acc": [1, 0, 1, 1]}}',
    "one.csv": "item,seed,acc\nx,1,0\ny,1,0\n",
    "two.csv": "item,seed,acc\nx,2,0\ny,2,0\n",
    "no.csv": "name,acc\nx,1\n",
    "text.csv": "item,prompt\nx,hello\n",
    "cell.csv": "item,acc\nx,1\ny,\n",
    "again.csv": "id,seed,acc\nx,1,1\nx,1,0\n",
    "seed.csv": "id,seed,acc\nx,one,1\n",
    "ragged.csv": "id,acc\nx,1,2\n",
    "latin.csv": b"id,acc\n\xe9,1\n",
    "comma.csv": "id;acc;nll\nx;1;0,5\ny;0;1,5\n",
    "pipe.csv": "id|acc\nx|1\n",
    "results_1.json": '{"results": {"arc": {"acc,none": 0.5}}, "versions": {}}',
    "out/m/results_1.json": '{"results": {"arc": {"acc,none": 0.5}}, "versions": {}}',
    "rolling.jsonl": '{"doc_id": 0, "metrics": ["word_perplexity"], "word_perplexity": [-9.5, 4]}',
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a.csv", "one system only, 'a'; give the scores of a second one"),
        ("a.csv b.csv c=b.csv", "3 systems: a, b, c; give two, or a YAML file of claims before the scores"),
        ("a.csv other.csv", "no metric in common: a has acc; other has f1"),
        ("a.csv items.csv", "acc: no item in common: a run has items such as x, y, another has v, w"),
        ("short.json long.json", "short.json: metrics.acc: items without names; name the `items`"),
        ("one.csv two.csv", "no seed in common: two has 2; one has 1"),
        ("no.csv a.csv", "no.csv: no column `item` or `id`; the columns are name, acc"),
        ("text.csv a.csv", "text.csv: no column has numbers"),
        ("cell.csv a.csv", "cell.csv: line 3: acc: '' is not allowed: should be a number"),
        ("again.csv a.csv", "again.csv: line 3: id 'x' has a second row of seed 1; should have one; a column"),
        ("seed.csv a.csv", "seed.csv: line 2: 'one' is not allowed as a seed"),
        ("ragged.csv a.csv", "ragged.csv: line 2: should have 2 cells, as the first line"),
        ("latin.csv a.csv", "latin.csv: not UTF-8 at byte 7"),
        ("comma.csv a.csv", "comma.csv: nll: '0,5' has a decimal comma; should be a number with a point"),
        ("pipe.csv a.csv", "the columns are id|acc; commas, semicolons or tabs separate columns"),
        ("results_1.json a.csv", "results_1.json: a summary of lm-evaluation-harness has no numbers for each item; give"),
        ("out a.csv", "out: a folder without samples_*.jsonl, which lm_eval --log_samples writes, and without logs of Inspect"),
        ("rolling.jsonl x=rolling.jsonl", "no metric has a number for each item; left out: rolling.word_perplexity: "),
        ("claims.yaml", "claims.yaml: no score files; give them after the file of claims"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, capsys, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    Path("out/m").mkdir(parents=True)
    for name, text in FILES.items():
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=re.escape(message)) as error:
        printed(capsys, *words.split())
    assert "\n" not in str(error.value)
