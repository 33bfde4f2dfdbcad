"""The command claims: a known answer, formats, mistakes, and the guide's example."""

import json
import math
import re
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from pydantic import TypeAdapter
from scipy import stats

from raretokens.claims.command import judge
from raretokens.claims.item_scores import RunScores, gather
from raretokens.claims.score_files import read, read_all
from raretokens.claims.verdict import Verdict
from raretokens.cli import RARETOKENS
from raretokens.errors import UserError

ROOT = Path(__file__).parents[1]
CLAIM = {"statement": "s", "metric": "accuracy", "left": "a", "right": "b", "effect": "difference", "expect": "higher"}


def judged(folder: Path, runs: list[dict], **changes) -> Verdict:
    (folder / "claims.yaml").write_text(yaml.safe_dump({"c": {**CLAIM, **changes}}))
    return judge(folder / "claims.yaml", gather(("scores.json", RunScores(**run)) for run in runs))[0]


def run(system: str, accuracy: list | float, seed: int | None = None, **more) -> dict:
    return {"system": system, "seed": seed, "metrics": {"accuracy": accuracy}, **more}


def of_counts(only_left: int, only_right: int, both: int, neither: int) -> tuple[list[int], list[int]]:
    counts = {(1, 0): only_left, (0, 1): only_right, (1, 1): both, (0, 0): neither}
    left, right = zip(*(pair for pair, count in counts.items() for _ in range(count)), strict=True)
    return list(left), list(right)


def test_paired_items_decide_where_an_unpaired_test_does_not(tmp_path):
    """The example of lm-evaluation-harness pull request 3868: 220 items, unpaired p 0.080, paired (McNemar) p 0.008.

    The pull request gives no counts. These are counts that have both p values, with McNemar's test without continuity correction.
    """
    left, right = of_counts(32, 14, 66, 108)
    assert len(left) == 220
    error = sum(np.var(one, ddof=1) / 220 for one in (left, right)) ** 0.5
    assert 2 * stats.norm.sf((np.mean(left) - np.mean(right)) / error) == pytest.approx(0.080, abs=5e-4)
    assert stats.chi2.sf((32 - 14) ** 2 / (32 + 14), 1) == pytest.approx(0.008, abs=5e-4)
    verdict = judged(tmp_path, [run("a", left), run("b", right)])
    assert verdict.outcome == "reproduced" and verdict.p == pytest.approx(0.008, abs=5e-4)
    exact = stats.ttest_rel(left, right)
    assert verdict.effect.interval == pytest.approx(tuple(exact.confidence_interval()), rel=0.02)


@pytest.mark.parametrize("scores", [[1, 0, 1], [0, 0, 0]])
@pytest.mark.parametrize("kind", ["difference", "ratio"])
def test_equal_scores_of_fixed_models_are_the_same(tmp_path, scores, kind):
    """Resampled test sets without a correct answer have the ratio 0 / 0, which is no change either."""
    pair = [run("a", scores), run("b", scores)]
    verdict = judged(tmp_path, pair, effect=kind, expect="same", margin=0.05)
    assert (verdict.outcome, verdict.p, verdict.effect.interval) == ("reproduced", 0.0, (int(kind == "ratio"),) * 2)
    assert judged(tmp_path, pair, effect=kind).outcome == "not testable"


def test_items_of_a_cluster_are_no_new_evidence(tmp_path):
    left, right = of_counts(32, 14, 66, 108)
    once = judged(tmp_path, [run("a", left), run("b", right)])
    clusters = [str(place) for place in range(220)] * 4
    copies = judged(tmp_path, [run("a", left * 4, clusters=clusters), run("b", right * 4, clusters=clusters)])
    assert copies.p == pytest.approx(once.p, abs=1e-3)
    assert judged(tmp_path, [run("a", left * 4), run("b", right * 4)]).p < 1e-5


def test_the_harness_s_samples_and_inspect_s_logs_are_read(tmp_path):
    folder = tmp_path / "org__small"
    folder.mkdir()
    samples = [
        {"doc_id": place, "filter": used, "metrics": ["exact_match"], "exact_match": float(place % 2), "resps": ["\u2028\x85"]}
        for used in ("none", "strict-match")
        for place in range(4)
    ]
    file = folder / "samples_gsm8k_2026-06-01T10-00-00.123456.jsonl"
    file.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in samples) + "\n")
    ((_, found),) = read(str(file))
    assert (found.system, found.seed) == ("org__small", None)
    assert found.metrics == {"gsm8k.exact_match": [0, 1, 0, 1], "gsm8k.strict-match.exact_match": [0, 1, 0, 1]}
    ((_, named),) = read(f"big@7={file}")
    assert (named.system, named.seed) == ("big", 7)
    (tmp_path / "lr=0.1").mkdir()
    (tmp_path / "lr=0.1" / file.name).write_bytes(file.read_bytes())
    ((_, named),) = read(f"big={tmp_path / 'lr=0.1' / file.name}")
    assert named.system == "big"

    grades = {1: "CIP", 2: "CCN"}
    logged = [
        {"id": place, "epoch": epoch, "scores": {"match": {"value": grade}, "judge": {"value": {"tone": 3, "length": 0.5}}}}
        for epoch, row in grades.items()
        for place, grade in enumerate(row)
    ]
    log = {"version": 2, "eval": {"task": "suite/arc", "model": "openai/small"}, "samples": logged}
    (tmp_path / "log.json").write_text(json.dumps(log))
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": log["eval"]}))
        for one in logged:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
    for name in ("log.json", "log.eval"):
        runs = [one for _, one in read(str(tmp_path / name))]
        assert [(one.system, one.seed) for one in runs] == [("openai/small", 1), ("openai/small", 2)]
        assert [one.metrics["arc.match"] for one in runs] == [[1, 0, 0.5], [1, 1, 0]]
        assert runs[0].metrics["arc.judge.tone"] == [3, 3, 3]
        assert gather(("log", one) for one in runs).value("openai/small", "arc.match").values == (0.5, pytest.approx(2 / 3))


def test_a_folder_has_the_newest_file_of_each_task_and_no_summary(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old, new = "2026-06-01T10-00-00", "2026-06-01T10-00-00.5"
    for place, folder in enumerate((Path("out/a/org__m"), Path("out/b/org__m"))):
        folder.mkdir(parents=True)
        for time, score in {old: 9.0, new: place}.items():
            sample = {"doc_id": 0, "metrics": ["acc", "mcc"], "acc": score, "mcc": [1, 0]}
            (folder / f"samples_arc_{time}.jsonl").write_text(json.dumps(sample))
            (folder / f"results_{time}.json").write_text(json.dumps({"results": {}, "versions": {}, "configs": {}}))
        rolling = {"word_perplexity": [-9.5, 4], "bits_per_byte": [-9.5, 30]}
        (folder / f"samples_wikitext_{new}.jsonl").write_text(json.dumps({"doc_id": 0, "metrics": [*rolling], **rolling}))
    runs, notes = read_all(["out/a", "out/b/"])
    assert [(run.system, run.metrics) for _, run in runs] == [("out/a", {"arc.acc": [0]}), ("out/b", {"arc.acc": [1]})]
    assert notes == [
        f"left out: out/a/org__m/samples_arc_{old}.jsonl, out/b/org__m/samples_arc_{old}.jsonl: a newer file has the same task",
        "left out: arc.mcc: computed from all items together, not means of scores",
        "left out: wikitext.word_perplexity, wikitext.bits_per_byte: ratios of sums over documents, not means of scores",
    ]
    assert [(run.system, run.seed) for _, run in read_all(["x@3=out/a", "out/b"])[0]] == [("x", 3), ("org__m", None)]

    logs = tmp_path / "logs"
    logs.mkdir()
    for number, (status, model) in enumerate({"success": "m", "error": "m", "started": "m", "cancelled": "n"}.items()):
        header = {"status": status, "eval": {"task": "t", "model": model, "created": f"2026-06-0{number + 1}T10:00:00+00:00"}}
        samples = [{"id": 1, "scores": {"match": {"value": number}}}]
        if status == "started":
            with zipfile.ZipFile(logs / "killed.eval", "w") as archive:
                archive.writestr("_journal/start.json", json.dumps({"eval": header["eval"]}))
        else:
            (logs / f"{number}.json").write_text(json.dumps({**header, "samples": samples}))
    (logs / "logs.json").write_text('{"0.json": {}}')
    (logs / "own.json").write_text(json.dumps([run("own", [1, 0])]))
    runs, notes = read_all(["logs"])
    assert [(run.system, *run.metrics) for _, run in runs] == [("m", "t.match"), ("own", "accuracy")]
    assert notes == ["left out: logs/1.json, logs/3.json, logs/killed.eval: the status of a log of Inspect should be 'success'"]


def harness(folder: Path, logs: list[float], **more) -> Path:
    folder.mkdir()
    file = folder / "samples_lambada_2026-06-01T10-00-00.123456.jsonl"
    known = {"metrics": ["perplexity", "acc"], "acc": 1, **more}
    lines = ({"doc_id": place, "perplexity": one, **known} for place, one in enumerate(logs))
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return file


@pytest.mark.parametrize("seed", range(8))
def test_a_perplexity_of_the_harness_has_its_value_and_direction(tmp_path, seed):
    """A sample has a log-likelihood; the harness makes it exp(-mean)."""
    random = np.random.default_rng(seed)
    base, gain, used = random.normal(-3, 1, 200), random.uniform(-1, 1), ["none", "strict"][seed % 2]
    logs = {"a": base + gain + random.normal(0, 0.05, 200), "b": base}
    files = [harness(tmp_path / name, row.tolist(), filter=used) for name, row in logs.items()]
    scores = gather(one for file in files for one in read(str(file)))
    metric, expect = "lambada." + ("perplexity" if used == "none" else "strict.perplexity"), "lower" if gain > 0 else "higher"
    ppl = {name: np.exp(-row.mean()) for name, row in logs.items()}
    for kind, effect in {"ratio": ppl["a"] / ppl["b"], "difference": ppl["a"] - ppl["b"]}.items():
        claim = {**CLAIM, "metric": metric, "effect": kind, "expect": expect}
        (tmp_path / "claims.yaml").write_text(yaml.safe_dump({"c": claim}))
        verdict = judge(tmp_path / "claims.yaml", scores)[0]
        assert verdict.outcome == "reproduced" and verdict.effect.value == pytest.approx(effect)
        if kind == "ratio":
            expected = np.exp(np.array(stats.ttest_rel(-logs["a"], -logs["b"]).confidence_interval()))
            assert verdict.effect.interval == pytest.approx(tuple(expected), rel=0.02)
    found = json.loads(RunScores(**run("a", [-1.0, 2.0]), logarithms=["accuracy"]).model_dump_json())  # of JSON as well
    assert gather([("s", RunScores(**found))]).number("a", "accuracy") == pytest.approx(math.exp(0.5))


@pytest.mark.parametrize("status", ["error", "cancelled", "started", "success", None])
@pytest.mark.parametrize("kind", ["json", "eval"])
def test_a_log_of_inspect_is_of_a_run_that_ended_well(tmp_path, status, kind):
    header = {"eval": {"task": "t", "model": "m"}} | ({"status": status} if status else {})
    sample, file = {"id": 1, "epoch": 1, "scores": {"s": {"value": 1}}}, tmp_path / f"log.{kind}"
    if kind == "json":
        file.write_text(json.dumps({**header, "samples": [sample]} if status in ("success", None) else header))
    else:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("header.json", json.dumps(header))
            archive.writestr("samples/1_epoch_1.json", json.dumps(sample))
    if status in ("success", None):
        assert read(str(file))[0][1].metrics == {"t.s": [1]}
    else:
        with pytest.raises(UserError, match=f"log.{kind}: status: the run ended with '{status}', so samples may be missing"):
            read(str(file))


@pytest.mark.parametrize(
    ("metric", "effect", "found"),
    [
        ("accuracy", "difference", (0.5, "reproduced", None)),
        ("isotropy.total", "difference", (0.5, "reproduced", None)),
        ("accuracy", "ratio", (None, "inconclusive", "the effect is not finite")),  # which JSON lacks
    ],
)
def test_json_has_numbers_or_texts_for_each_metric(tmp_path, capsys, monkeypatch, metric, effect, found):
    monkeypatch.chdir(tmp_path)
    for name, scores in {"a": [1, 0] * 10, "b": [0] * 20}.items():
        Path(f"{name}.json").write_text(json.dumps({**run(name, scores), "metrics": {metric: scores}}))
    Path("claims.yaml").write_text(yaml.safe_dump({"c": {**CLAIM, "metric": metric, "effect": effect}}))
    arguments = RARETOKENS.parser(["claims"]).parse_args(["claims", "claims.yaml", "a.json", "b.json", "--json"])
    arguments.function(arguments)
    (row,) = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert row["metric"] == metric and (row["measured"], row["verdict"], row["reason"]) == found


@pytest.mark.parametrize(
    ("runs", "changes", "message"),
    [
        ([run("a", [1, 0]), run("b", [1, 0])], {"left": "aa"}, "claims.yaml: c: no scores of the system 'aa'; the nearest is a"),
        ([run("a", [1, 0]), run("b", [1, 0])], {"metric": "acc"}, "no scores of the metric 'acc'; the nearest is accuracy"),
        ([run("a", [1, 0]), run("b", [1, 0])], {"than": math.nan}, "claims.yaml: c.than: nan is not allowed"),
        ([run("a", [1, 0]), run("b", [1, 0])], {"margin": 0.1}, "`margin` is required with `expect: same`"),
        ([run("a", [1, 0]), run("b", [1, 0])], {"right": None}, "ratio and difference need `left` and `right`"),
        ([run("a", [1, 0]), run("b", [1])], {}, "metrics.accuracy: 1 items are in only one of this run and a"),
        ([run("a", [1, 0]), run("a", [1, 1])], {}, "a has scores of accuracy already; runs that differ in the seed need"),
        ([run("a", [1, 0]), run("a", [1, 1], 2)], {}, "a has runs with and without a seed"),
        ([run("a", 0.5), run("b", 0.4)], {}, "one number of a fixed model has no variance"),
        ([run("a", [1, 0], items=["x", "x"]), run("b", [1, 0])], {}, "two items have the same name"),
        ([run("a", [1, 0], items=["x"]), run("b", [1, 0])], {}, "2 scores, 1 items, 1 clusters; they must be as many"),
        ([run("a", [1, 0], 1, model="x"), run("a", [1, 0], 2)], {}, "model: ''; other runs of a have 'x'"),
        ([run("a", 0.5, 1), run("b", 0.4, 2)], {}, "systems are compared over the seeds that both have; SYSTEM@SEED="),
        ([run("a", [1, 0], 1), run("b", 0.4, 1)], {}, "c: accuracy: some runs have one number and others a score"),
        ([run("a", [1], 1), run("b", [0], 1)], {}, "c: accuracy: one item or cluster has no variance"),
        ([run("a", 1, 1), run("b", 1, 1)], {"effect": "ratio", "reported": -0.1}, "`reported` of a ratio must be positive"),
        ([run("a", 1, 1), run("b", 1, 1)], {"effect": "ratio", "than": 0}, "`than` of a ratio must be positive"),
        ([run("a", [-1, -2]), run("b", [-3, -2])], {"effect": "ratio"}, "accuracy: a has -1.5; a ratio needs 0 or more"),
        ([run("a", [1, 2]), run("b", [-3, 4])], {"effect": "ratio"}, "accuracy: b has -4.45 on a resampled test set;"),
        ([run("a", -1.0, 1), run("b", -2.0, 1)], {"effect": "ratio"}, "accuracy: a has -1; a ratio needs 0 or more"),
        ([run("a", [1, 2], logarithms=["acc"])], {}, "scores.json: logarithms: 'acc' is not allowed: metrics with"),
        ([run("a", 1.0, 1, logarithms=["accuracy"])], {}, "logarithms: 'accuracy' is not allowed: metrics with a score"),
        ([run("a", [1, 2], logarithms=["accuracy"]), run("b", [1, 2])], {}, "accuracy: is in `logarithms` of only one of this"),
        ([run("a", [1e3, 2e3], logarithms=["accuracy"])], {}, "accuracy: the exponential of the mean 1500 is too large; leave"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_says_where(tmp_path, runs, changes, message):
    with pytest.raises(UserError) as error:
        judged(tmp_path, runs, **changes)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.json", "{", "s.json: not JSON"),
        ("s.json", b'{"system": "\xe9"}', "s.json: not UTF-8 at byte 12"),
        ("s.json", '{"system": "a", "metrics": {"m": ["1"]}}', "s.json: 0.metrics.m"),
        ("s.json", '{"system": "a", "metric": {}}', "metric: unknown key (value {}); the nearest is metrics"),
        ("s.jsonl", b'\n"\xe9"\n', "s.jsonl: line 2: not UTF-8 at byte 1"),
        ("s.jsonl", '{"acc": 1}\n', "s.jsonl: line 1: has no `doc_id` and `metrics`"),
        ("s.jsonl", '{"doc_id": 3, "metrics": ["acc"], "acc": 1}\n' * 2,
         "s.jsonl: line 2: doc_id 3: has a second score of s.acc"),
        ("s.json", '{"eval": {}, "samples": [' + ", ".join(['{"id": 1, "scores": {"m": {"value": 1}}}'] * 2) + "]}",
         "s.json: epoch 1: sample 1: has a second score of s.m"),
        ("s.json", '{"eval": {}, "samples": [{"id": 1, "scores": {"s": {"value": 1}}}, {"id": 2, "scores": null}]}',
         "s.json: 1 samples have no score, as after an error; all should have one"),
        ("s.eval", "x", "s.eval: cannot be read as a log of Inspect"),
        ("s.json", '{"eval": 3, "samples": []}', "s.json: eval: 3 is not allowed"),
        ("s.json", '{"eval": {}, "samples": [{"epoch": 2}]}', "s.json: samples.0.id: missing; it is required"),
        ("s.json", '{"eval": {}, "samples": [{"id": 1, "scores": [1]}]}', "s.json: samples.0.scores: [1] is not allowed"),
    ],
)
def test_a_file_that_has_no_scores_says_so(tmp_path, name, text, message):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=re.escape(message)):
        read(str(tmp_path / name))


@pytest.mark.parametrize("name", ["s.json", "s.jsonl", "s.csv"])
def test_a_file_that_is_missing_is_not_called_malformed(tmp_path, name):
    with pytest.raises(FileNotFoundError):
        read(str(tmp_path / name))


@pytest.mark.parametrize("text", ["", "{}", "# later"])
def test_a_file_without_claims_says_so(tmp_path, text):
    (tmp_path / "claims.yaml").write_text(text)
    with pytest.raises(UserError, match="claims.yaml: no claims$"):
        judge(tmp_path / "claims.yaml", gather([("scores.json", RunScores(**run("a", [1, 0])))]))


def test_many_wrong_scores_are_few_lines(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"system": "a", "metrics": {"m": ["0.25"] * 500}}))
    with pytest.raises(UserError) as error:
        read(str(tmp_path / "s.json"))
    first, *_, last = str(error.value).splitlines()
    assert "0.metrics.m.0: '0.25' is not allowed" in first and last.endswith("498 more mistakes") and len(str(error.value)) < 900


def test_the_guide_shows_the_example_s_output_and_the_schema_is_that_of_the_code(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/judge-your-claims.md").read_text(encoding="utf-8")
    examples = re.findall(r"```\nraretokens (claims docs/examples/[^\n]*)\n```.*?```text\n(.*?)\n```", page, re.DOTALL)
    assert len(examples) == 2  # two systems, and a file of claims
    for command, shown in examples:
        words = [str(path) for word in shlex.split(command) for path in (sorted(Path().glob(word)) if "*" in word else [word])]
        arguments = RARETOKENS.parser(["claims"]).parse_args(words)
        arguments.function(arguments)
        printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()).strip("\n")
        assert printed == shown
    block = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    declared = yaml.safe_load((ROOT / "docs/examples/claims/claims.yaml").read_text())
    assert block.items() <= declared.items()
    arguments = RARETOKENS.parser(["claims"]).parse_args([*words, "--json"])
    arguments.function(arguments)
    rows = {row["claim"]: row for row in json.loads(capsys.readouterr().out)}
    assert {row["verdict"] for row in rows.values()} == {"reproduced", "contradicted", "inconclusive"}
    assert all(row["seeds_low"] < row["measured"] < row["seeds_high"] for row in rows.values())
    schema = json.loads((ROOT / "docs/item-scores.schema.json").read_text(encoding="utf-8"))
    assert schema == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "raretokens item scores, version 1",
        **TypeAdapter(RunScores | list[RunScores]).json_schema(),
    }
