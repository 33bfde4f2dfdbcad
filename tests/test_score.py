"""The stages score and baseline end to end, on artifacts of a tiny world: layout and numbers of docs/artifacts.md."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny.scored import TEST, create, lines, put
from tiny.world import served_environment

from raretokens.metrics.frequency import norms
from raretokens.metrics.isotropy import isotropy, log_partitions
from raretokens.metrics.score_files import flatten, signature_of, write_bootstrap, write_points
from raretokens.vocabulary import Vocabulary
from reproduction.corpora.tokenization.settings import Groups
from reproduction.corpora.tokenization.token_files import tokens
from reproduction.tasks.evaluation.history import half_fall, largest_rise

CODE = Path(__file__).parents[1]
GROUPS = ["total", "freq", "med", "rare"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return create(tmp_path_factory.mktemp("scale"))


def stage(world, *arguments):
    environment = served_environment() | {"PYTHONPATH": str(CODE / "src"), "OMP_NUM_THREADS": "1"}
    command = ["python", "-m", "reproduction.pipeline", *arguments]
    return subprocess.run(command, cwd=world, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def reports(world):
    """All reports, the first of them made twice: the second run must write the same bytes."""
    folder = world / "reports"

    def write(*arguments):
        done = stage(world, *arguments)
        assert done.returncode == 0, done.stderr
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.*"))}

    once = ("score", "lm", "tiny"), ("score", "nmt", "tiny"), ("baseline", "lm", "lm"), ("baseline", "nmt", "nmt")
    written = [write(*arguments) for arguments in once][-1]
    assert all(write(*arguments) == written for arguments in once)
    write("score", "lm", "words")
    written = write("score", "nmt", "back")
    runs = [f"{task}/{name}" for task, name in (("lm", "tiny"), ("lm", "words"), ("nmt", "back"), ("nmt", "tiny"))]
    endings = (".json", ".csv", ".bootstrap.csv")
    expected = {f"runs/{run}{ending}" for run in (*runs, "lm/human", "nmt/copy") for ending in endings}
    assert written.keys() == expected | {f"curves/{run}.csv" for run in runs}
    return written


GEOMETRY = [
    "isotropy",
    "isotropy_both_signs",
    "mean_cosine",
    "rare_freq_cosine",
    "inner_product",
    "iso_score",
    "effective_rank",
    "all_but_top",
]


def metrics_of(reports, run):
    return json.loads(reports[f"runs/{run}.json"])["metrics"]


def points_of(reports, run):
    """Series -> rows (group, x, y)."""
    header, *rows = reports[f"runs/{run}.csv"].decode().splitlines()
    assert header == "series,group,x,y"
    series = {}
    for row in rows:
        name, group, x, y = row.split(",")
        series.setdefault(name, []).append((group, float(x), float(y)))
    return series


def test_language_model_scores_have_the_documented_layout(reports):
    report = json.loads(reports["runs/lm/tiny.json"])
    facts = ["run", "task", "objective", "model", "seed"]
    assert list(report) == [*facts, "metrics", "neighbours", "signatures", "options", "parameters"] + [
        "parameters_hash", "neighbour_ranks"
    ]
    assert [report[key] for key in facts] == ["tiny", "lm", "agg", "demo", 7]
    assert report["options"] == [["alpha", 0.03]]
    metrics = report["metrics"]
    similarity = ["spearman", "spearman_bare", "spearman_one_token", "pairs_not_one_token", "coverage"]
    assert metrics.keys() >= {"ppl", "uniq", "continuation", *GEOMETRY, *similarity}
    assert all(list(metrics[name]) == GROUPS for name in ("ppl", "uniq", "isotropy", "inner_product"))
    assert all(list(metrics[name]) == ["men", "ws353", "rg65", "rw"] for name in similarity)
    assert list(metrics["all_but_top"]) == ["isotropy", "mean_cosine", "spearman"]
    signatures = dict(report["signatures"])
    assert {name.split(".")[0] for name in signatures} == {*metrics, "neighbours"}
    assert signatures["ppl"] == "log:e|unit:piece|window:128|context:32|split:test"
    parts = {"spearman": "all", "spearman_one_token": "one-token", "spearman_not_one_token": "not-one-token"}
    for name, pairs in parts.items():
        assert signature_of(f"{name}.men", signatures).endswith(f"|pairs:{pairs}")
    assert reports["runs/lm/tiny.json"].endswith(b"}\n")
    parameters = dict(map(tuple, report["parameters"]))
    assert (parameters["parameters"], parameters["width"], parameters["precision"]) == (999, 128, "float32")
    assert "beam" not in parameters


def test_language_model_numbers(world, reports):
    report = json.loads(reports["runs/lm/tiny.json"])
    logprob = np.load(world / "data/predictions/lm/tiny/logprob.npy").astype(float)
    total = report["metrics"]["ppl"]["total"]
    assert total == float(f"{np.exp(-logprob.mean()):.6g}")  # six significant digits
    summary = json.loads((world / "data/runs/lm/tiny/training.json").read_text())
    uniform = np.log(Vocabulary.read(world / "data/tokens/lm/vocabulary.tsv").types)
    expected = summary["updates"] / summary["updates_per_epoch"], summary["kept"]["valid_nll"] / uniform
    assert [*report["metrics"]["training"].values()] == pytest.approx(expected, rel=1e-5)
    table = load_file(world / "data/runs/lm/tiny/model.safetensors")["table"]
    vocabulary = Vocabulary.read(world / "data/tokens/lm/vocabulary.tsv")
    moved, _ = norms(
        table - np.float32(np.float16(0.1)), vocabulary.counts, vocabulary.frequency_groups(Groups(fractions=[0.3, 0.5, 0.2]))
    )
    assert report["metrics"]["displacement"] == pytest.approx(moved, rel=1e-4)
    predicted = np.load(world / "data/predictions/lm/tiny/prediction.npy")
    uniq, human = report["metrics"]["uniq"]["total"], metrics_of(reports, "lm/human")["uniq"]["total"]
    assert uniq == len(set(predicted.tolist())) < human
    assert report["metrics"]["continuation"]["samples"] == {str(i): 3 for i in range(1, 5)}
    assert report["metrics"]["continuation"]["rep3"] == 0.25  # 4 5 6 4 5 6: one of four 3-grams comes twice
    assert report["metrics"]["coverage"]["men"] == pytest.approx(4 / 5)  # "queue" has letters that were never seen
    (query, near), (unknown, nothing) = report["neighbours"]
    assert (query, len(near), unknown, nothing) == ("sea", 5, "policymakers", [])
    assert all(group in GROUPS[1:] for *_, group in near)


@pytest.mark.parametrize("run", ["lm/tiny", "lm/human", "nmt/tiny", "nmt/back"])
def test_resamples_are_those_of_the_metric_that_they_are_named_after(reports, run):
    """They lie around it, but no resample has more types than the whole text."""
    header, *rows = reports[f"runs/{run}.bootstrap.csv"].decode().splitlines()
    columns = np.array([[float(cell or "nan") for cell in row.split(",")] for row in rows]).T
    measured = dict(flatten(metrics_of(reports, run)))
    for metric, replicates in zip(header.split(","), columns, strict=True):
        known = replicates[np.isfinite(replicates)]
        if len(known) and metric in measured:
            is_within = known.min() <= measured[metric] <= known.max()
            assert known.max() <= measured[metric] if metric.startswith("uniq.") else is_within, metric
    assert any(metric in measured for metric in header.split(","))


def test_a_model_of_words_has_one_row_a_word(reports):
    report = json.loads(reports["runs/lm/words.json"])
    signatures, metrics = dict(report["signatures"]), report["metrics"]
    assert metrics.keys() >= {"ppl", "uniq", "continuation", *GEOMETRY, "spearman", "coverage"}
    assert signatures["ppl"].startswith("log:e|unit:word|")
    assert "|form:whole-word|" in signatures["spearman"]
    assert metrics["coverage"]["men"] == pytest.approx(4 / 5)  # "queue" is no word of the text


def test_points_of_figures(world, reports):
    series = points_of(reports, "lm/tiny")
    pictures = {"projection", "projection@0", "projection@2"}
    curves = {"isotropy", "rare_freq_cosine", "inner_product", "nll", "rare_group_size"}
    assert series.keys() == pictures | curves | {"singular_values", "similarity:sea"}  # policymakers is no piece
    assert {group for group, *_ in series["projection@2"]} == set(GROUPS[1:])
    assert series["singular_values"][0] == ("total", 1, 1)
    assert series["rare_group_size"] == [("rare", update, 40 - update) for update in range(1, 5)]
    assert series["nll"] == [*(("train", update, 6 - update) for update in range(1, 5)), ("valid", 3, 3.5)]
    table = load_file(world / "data/runs/lm/tiny/model.safetensors")["table"]
    vocabulary = Vocabulary.read(world / "data/tokens/lm/vocabulary.tsv")
    groups = vocabulary.frequency_groups(Groups(fractions=[0.3, 0.5, 0.2]))
    last = isotropy(log_partitions((table + 0.1).astype(np.float16), groups))[0]
    assert [row for row in series["isotropy"] if row[1] == 4] == [
        (group, 4, pytest.approx(last[group], rel=1e-3)) for group in GROUPS
    ]
    assert [x for _, x, _ in series["rare_freq_cosine"]] == [0, 2, 4]
    translated = points_of(reports, "nmt/tiny")
    assert {"projection@2", "pca", "pca@2", "similarity:way"} <= translated.keys()
    assert translated.keys().isdisjoint({"projection", "rare_group_size"})
    assert points_of(reports, "lm/words").keys() == curves - {"rare_group_size"} | {"singular_values"}  # no figure draws it


def test_curves_have_a_row_a_snapshot(reports):
    header, *rows = (line.split(",") for line in reports["curves/lm/tiny.csv"].decode().splitlines())
    assert header == ["update", "nll", "valid_nll", "iw", "iw_rare", "rare_freq_cosine", "rare_group_size"]
    assert [row[:3] + row[6:] for row in rows] == [["2", "4.5", "", "38"], ["4", "2.5", "3.5", "36"]]
    assert all(0 < float(row[3]) <= 1 for row in rows)


def test_translation_scores(reports):
    report = json.loads(reports["runs/nmt/tiny.json"])
    metrics, signatures = report["metrics"], dict(report["signatures"])
    assert metrics.keys() >= {"bleu", "chrf", *GEOMETRY, "alignsim", "valid_nll"}
    assert list(metrics["bleu"]) == ["tokenised", "sacrebleu", "interval", "later"]
    assert metrics["bleu"]["tokenised"] == metrics["bleu"]["sacrebleu"] == metrics["chrf"] == 100.0
    assert metrics["bleu"]["interval"] == 0.0
    assert 0 < metrics["bleu"]["later"]["sacrebleu"] < 100
    assert signatures["bleu.sacrebleu"].endswith("|beam:4|length-penalty:0.6-fairseq|compute:float32|sentences:2")
    assert "beam" not in dict(json.loads(reports["runs/nmt/copy.json"])["signatures"])["bleu.sacrebleu"]
    assert "sentences" not in signatures["bleu.later.sacrebleu"]
    assert list(metrics["alignsim"]) == GROUPS
    assert (metrics["valid_nll"], report["seed"], report["options"]) == (4.25, 1, [])
    ((query, near),) = report["neighbours"]
    (named,) = report["neighbour_ranks"]
    assert (query, named[0], named[1][0][0]) == ("way", "way", "sea")
    places = {piece.strip("\u2581"): place for place, (piece, *_) in enumerate(near, start=1)}
    assert named[1][0][1] == places.get("sea", named[1][0][1]) and (named[1][0][1] > 5 or "sea" in places)
    assert {("beam", 4), ("length_penalty", 0.6)} <= set(map(tuple, report["parameters"]))


def test_a_reversed_run_is_scored_against_the_sources(reports):
    bleu = metrics_of(reports, "nmt/back")["bleu"]
    assert bleu["tokenised"] == bleu["sacrebleu"] == 100.0
    assert 0 < bleu["later"]["sacrebleu"] < 100


def test_scores_of_the_data(world, reports):
    copy, human = (metrics_of(reports, name) for name in ("nmt/copy", "lm/human"))
    assert copy["bleu"]["later"] == metrics_of(reports, "nmt/tiny")["bleu"]["later"]  # it copied the source
    assert copy["corpus"] == {"pairs": {"train": 20, "test": 3, "later": 1}}
    assert human.keys() >= {"uniq", "continuation", "token_share", "types", "tokens", "corpus"}
    targets = tokens(world / "data/tokens/lm", "test")
    assert human["uniq"]["total"] == len(set(targets.tolist()))
    assert human["tokens"]["test"] == len(targets)
    for name in ("uniq", "token_share", "types"):
        assert sum(human[name][group] for group in GROUPS[1:]) == pytest.approx(human[name]["total"], abs=1e-5)
    stride = (len(targets) - 10) // 5
    assert human["continuation"]["samples"]["2"] == len(set(targets[stride + 4 : stride + 10].tolist()))
    assert human["corpus"]["test"] == sum(len(line.replace(".", " .").replace("-", " - ").split()) for line in TEST)
    assert human["corpus"]["oov"] == 0
    ranked = points_of(reports, "lm/human")["rank_frequency"]
    assert (ranked[0][:2], ranked[-1][1]) == (("total", 1), human["corpus"]["types"] - 1)  # <unk> stands nowhere


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("score", "lm", "nobody"), "error: data/jobs/score-lm/nobody.json: no such file; known: tiny, words"),
        (("score", "ml", "tiny"), "error: 'ml' is no task; the nearest is lm"),
        (("baseline", "lm", "nmt"), "error: data/jobs/baseline/nmt.json: not made by this version"),
    ],
)
def test_mistakes_are_one_line(world, arguments, message):
    done = stage(world, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_artifacts_that_do_not_fit_leave_the_old_score(world, reports):
    weights = "data/runs/nmt/tiny/model.safetensors"
    rows = load_file(world / weights)["table"].astype(np.float16)
    snapshots, diverged = "data/runs/nmt/tiny/snapshots.safetensors", np.full_like(rows, np.inf)
    for path, content, message in (
        ("data/predictions/nmt/tiny/test.txt", lines(TEST), "test.txt: 3 lines; there are 2 references to score"),
        ("data/predictions/nmt/tiny/later.txt", None, "later.txt: no such file; dvc repro makes what this stage needs"),
        (weights, {"table": np.full((8, 8), 1.0)}, "model.safetensors: 8 rows for"),
        (snapshots, None, "snapshots.safetensors: no such file; train the run first"),
        (snapshots, {"000000": rows, "000004": rows}, "of tiny are of steps 0, 4"),
        (
            "data/runs/nmt/tiny/snapshots.safetensors",
            {"000000": diverged},
            "000000: the weights contain NaN or Inf",
        ),
    ):
        kept = (world / path).read_bytes()
        (world / path).unlink()
        if isinstance(content, dict):
            save_file(content, world / path)
        elif content is not None:
            put(world / path, content)
        done = stage(world, "score", "nmt", "tiny")
        (world / path).write_bytes(kept)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert message in done.stderr
        assert (world / "reports/runs/nmt/tiny.json").read_bytes() == reports["runs/nmt/tiny.json"]


def test_a_metric_of_zero_has_a_value_and_none_has_not():
    tree = {"a": 0, "b": {"c": 0.0, "d": None, "e": {"f": False}}}
    assert dict(flatten(tree)) == {"a": 0, "b.c": 0.0, "b.e.f": False}


def test_numbers_on_drawn_test_sets_have_five_digits_and_points_four(tmp_path):
    write_bootstrap(
        tmp_path / "drawn.csv", {"ppl.total": np.array([123.456789, np.nan]), "uniq.rare": np.array([7.0, 8.0])}
    )
    assert (tmp_path / "drawn.csv").read_text() == "ppl.total,uniq.rare\n123.46,7\n,8\n"
    write_points(tmp_path / "points.csv", [("isotropy", "rare", 1234567, 0.123456)])
    assert (tmp_path / "points.csv").read_text() == "series,group,x,y\nisotropy,rare,1234567,0.1235\n"


def test_what_is_read_off_the_course_of_a_training_by_hand():
    sizes = ["", "10", "12", "0", "4", "5"]  # from 10 to 12, from 4 to 5; nothing rises from nothing
    assert largest_rise([{"rare_group_size": size} for size in sizes]) == 0.25
    assert largest_rise([{}]) is None
    assert (
        largest_rise([{"rare_group_size": size} for size in ["4"] * 1000 + ["8"]]) == 0
    )  # of the first thousand updates
    falls = [(0, 1.0), (10, 0.9), (20, None), (30, 0.62), (40, 0.5)]
    assert half_fall(falls, since=0) == 0.75 and half_fall(falls, since=10) == 0.75  # below 0.75, below 0.7
    assert half_fall([(0, 1.0), (10, 0.5)], since=0) == 1.0
    assert half_fall([(0, 0.5), (10, 0.4999)], since=0) is None  # no fall
