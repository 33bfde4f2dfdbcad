"""stages/score.py end to end, on artifacts of a tiny world: the layout and the numbers of docs/artifacts.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import sparse

from raretokens.subword.corpus import encode
from raretokens.subword.streams import tokens
from raretokens.subword.vocabulary import Vocabulary

CODE = Path(__file__).parents[1]
TRAIN = [
    "the shepherd saw a well-worn way in the wilderness",
    "and the prophecy was of a shepherd and of the sea",
    "in the sea there is a way",
    "a wilderness and the sea",
] * 5
TEST = [
    "the shepherd saw the sea in the wilderness.",
    "a well-worn way of the shepherd and of the sea.",
    "the prophecy was in the sea and in the way.",
]
SOURCE = [
    "the shepherd hath seen the sea in the wilderness.",
    "a way of the shepherd and of the sea.",
    "the prophecy is in the sea and the way.",
]
GROUPS = ["total", "freq", "med", "rare"]


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def lines(text):
    return "".join(f"{line}\n" for line in text)


def make_parameters(root):
    tree = yaml.safe_load((CODE / "params.yaml").read_text(encoding="utf-8"))
    tree["neighbours"] = {"lm": ["sea", "policymakers"], "nmt": ["way"]}
    tree["nmt"] |= {"extra_tests": ["later", "absent"], "alpha": 0.08}
    tree["nmt"]["decoding"]["sentences"] = 2
    tree["runs"] = {
        "lm": {"tiny": {"size": "demo", "objective": "agg", "knob": "alpha", "seed": 7}},
        "nmt": {"tiny": {"size": "base", "objective": "mle", "knob": "seed"}},
    }
    put(root / "params.yaml", yaml.safe_dump(tree))


def make_run(root, task, random):
    """Table and training log of a run; returns its vocabulary."""
    vocabulary = Vocabulary.read(root / f"data/tokens/{task}/vocabulary.tsv")
    probe, run = root / f"data/probes/{task}/tiny", root / f"data/runs/{task}/tiny"
    probe.mkdir(parents=True)
    np.save(probe / "table.npy", random.normal(0.1, 1, (len(vocabulary), 8)).astype(np.float32))
    extra = ["rare_group_size"] if task == "lm" else []
    log = ["update", "loss", "nll", "lr", *extra], ["1", "4.5", "4.5", "0.1", *["31"] * len(extra)]
    put(run / "log.tsv", lines("\t".join(row) for row in log))
    put(run / "training.json", json.dumps({"updates": 1, "kept": {"update": 1, "valid_nll": 4.25}}))
    return vocabulary


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root, random = tmp_path_factory.mktemp("scale"), np.random.default_rng(0)
    make_parameters(root)
    corpus = root / "data/corpus"
    for split, text, source in (("train", TRAIN, TRAIN), ("test", TEST, SOURCE), ("later", TEST[:1], SOURCE[:1])):
        put(corpus / f"nmt/{split}.source", lines(source))
        put(corpus / f"nmt/{split}.target", lines(text))
        put(corpus / f"lm/{split}.txt", lines(text))
    put(corpus / "nmt/counts.json", json.dumps({"corpus": "tiny", "languages": {"source": "en", "target": "en"}}))
    for name in ("men", "ws353", "rg65", "rw"):
        put(corpus / f"similarity/{name}.tsv", "sea\tway\t1.5\nsea\twilderness\t8\nshepherd\tqueue\t2\n")
    for task in ("lm", "nmt"):
        encode(task, corpus / task, 60, root / "data/tokens" / task)
    make_run(root, "lm", random)
    targets = tokens(root / "data/tokens/lm", "test")
    np.save(root / "data/probes/lm/tiny/logprob.npy", -random.exponential(3, len(targets)).astype(np.float32))
    np.save(root / "data/probes/lm/tiny/prediction.npy", np.roll(targets, 1).astype(np.int32))
    types = len(make_run(root, "nmt", random))
    (root / "data/alignment").mkdir()
    links = sparse.random_array((types, types), density=0.2, rng=random, format="csr")
    sparse.save_npz(root / "data/alignment/links.npz", links)
    put(root / "data/hypotheses/tiny/test.txt", lines(TEST[:2]))  # the limit of 2 sentences
    put(root / "data/hypotheses/tiny/later.txt", lines(SOURCE[:1]))
    return root


def score(world, *arguments):
    environment = os.environ | {"PYTHONPATH": str(CODE / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(CODE / "stages/score.py"), *arguments]
    return subprocess.run(command, cwd=world, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def reports(world):
    """All reports, made twice: the second run must write the same bytes."""
    written = []
    for _ in range(2):
        for arguments in (("lm", "tiny"), ("nmt", "tiny"), ("data",)):
            done = score(world, *arguments)
            assert done.returncode == 0, done.stderr
        folder = world / "reports/runs"
        written.append({str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.*"))})
    assert written[0] == written[1]
    assert list(written[0]) == [
        "lm/human.json",
        "lm/tiny.csv",
        "lm/tiny.json",
        "nmt/copy.json",
        "nmt/tiny.csv",
        "nmt/tiny.json",
    ]
    return written[0]


def test_language_model_scores_have_the_documented_layout(world, reports):
    report = json.loads(reports["lm/tiny.json"])
    assert list(report) == [
        "run",
        "task",
        "objective",
        "size",
        "seed",
        "metrics",
        "neighbours",
        "signatures",
        "options",
    ]
    assert [report[key] for key in list(report)[:5]] == ["tiny", "lm", "agg", "demo", 7]
    assert report["options"] == [["alpha", 0.03]]
    metrics = report["metrics"]
    assert list(metrics) == [
        "ppl",
        "uniq",
        "isotropy",
        "isotropy_both_signs",
        "mean_cosine",
        "rare_freq_cosine",
        "spearman",
        "spearman_bare",
        "coverage",
    ]
    assert all(list(metrics[name]) == GROUPS for name in ("ppl", "uniq", "isotropy", "isotropy_both_signs"))
    assert list(metrics["spearman"]) == list(metrics["coverage"]) == ["men", "ws353", "rg65", "rw"]
    assert [name for name, _ in report["signatures"]] == [*metrics, "neighbours"]
    assert report["signatures"][0][1] == "log:e|unit:piece|window:128|context:64|split:test"
    assert reports["lm/tiny.json"].endswith(b"}\n")


def test_language_model_numbers(world, reports):
    report = json.loads(reports["lm/tiny.json"])
    logprob = np.load(world / "data/probes/lm/tiny/logprob.npy").astype(float)
    total = report["metrics"]["ppl"]["total"]
    assert total == float(f"{np.exp(-logprob.mean()):.6g}")  # six significant digits
    human = json.loads(reports["lm/human.json"])["metrics"]
    assert report["metrics"]["uniq"] == human["uniq"]  # the predictions are the targets, turned by one
    assert report["metrics"]["coverage"]["men"] == pytest.approx(4 / 5)  # "queue" has letters that were never seen
    (query, found), (unknown, nothing) = report["neighbours"]
    assert (query, len(found), unknown, nothing) == ("sea", 5, "policymakers", [])
    assert all(group in GROUPS[1:] for *_, group in found)


def test_points_of_figures(reports):
    header, *rows = reports["lm/tiny.csv"].decode().splitlines()
    assert header == "series,group,x,y"
    assert [row for row in rows if row.startswith("rare_group")] == ["rare_group_size,rare,1,31"]
    assert [row for row in rows if row.startswith("singular")][0] == "singular_values,total,1,1"
    assert {row.rsplit(",", 2)[0] for row in rows if row.startswith("proj")} == {f"projection,{g}" for g in GROUPS[1:]}
    assert b"rare_group_size" not in reports["nmt/tiny.csv"]


def test_translation_scores(reports):
    report = json.loads(reports["nmt/tiny.json"])
    metrics, signatures = report["metrics"], dict(report["signatures"])
    assert list(metrics) == [
        "bleu",
        "isotropy",
        "isotropy_both_signs",
        "mean_cosine",
        "rare_freq_cosine",
        "alignsim",
        "valid_nll",
    ]
    assert list(metrics["bleu"]) == ["tokenised", "sacrebleu", "later"]
    assert metrics["bleu"]["tokenised"] == metrics["bleu"]["sacrebleu"] == 100.0
    assert 0 < metrics["bleu"]["later"]["sacrebleu"] < 100
    assert signatures["bleu.sacrebleu"].endswith("|sentences:2")
    assert "sentences" not in signatures["bleu.later.sacrebleu"]
    assert list(metrics["alignsim"]) == GROUPS
    assert (metrics["valid_nll"], report["seed"], report["options"]) == (4.25, 1, [])
    assert [query for query, _ in report["neighbours"]] == ["way"]


def test_scores_of_the_data(world, reports):
    copy, human = (json.loads(reports[name])["metrics"] for name in ("nmt/copy.json", "lm/human.json"))
    assert (
        copy["bleu"]["later"] == json.loads(reports["nmt/tiny.json"])["metrics"]["bleu"]["later"]
    )  # it copied the source
    assert list(human) == ["uniq", "token_share", "types", "tokens"]
    targets = tokens(world / "data/tokens/lm", "test")
    assert human["uniq"]["total"] == len(set(targets.tolist()))
    assert human["tokens"]["test"] == len(targets)
    for name in ("uniq", "token_share", "types"):
        assert sum(human[name][group] for group in GROUPS[1:]) == pytest.approx(human[name]["total"], abs=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("lm", "nobody"), "error: runs.lm: no run named nobody"),
        (("all",), "error: usage: score.py lm RUN"),
    ],
)
def test_mistakes_are_one_line(world, arguments, message):
    done = score(world, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_artifacts_that_do_not_fit_leave_the_old_score(world, reports):
    for path, content, message in (
        ("data/hypotheses/tiny/test.txt", lines(TEST), "test.txt: 3 lines; there are 2 references to score"),
        ("data/hypotheses/tiny/later.txt", None, "later.txt: cannot be read; run the stages before this one"),
        ("data/probes/nmt/tiny/table.npy", np.full((8, 8), 1.0), "table.npy: 8 rows for"),
    ):
        kept = (world / path).read_bytes()
        (world / path).unlink()
        if isinstance(content, np.ndarray):
            np.save(world / path, content)
        elif content is not None:
            put(world / path, content)
        done = score(world, "nmt", "tiny")
        (world / path).write_bytes(kept)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert message in done.stderr
        assert (world / "reports/runs/nmt/tiny.json").read_bytes() == reports["nmt/tiny.json"]
