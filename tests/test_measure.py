"""Measuring models that are not ours: known answers, other people's models, refused files, tables too large for memory."""

import csv
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny import finished as tiny

from raretokens.cli import main
from raretokens.errors import UserError
from raretokens.measure import streaming
from raretokens.measure.causal_predictions import loss_by_rank
from raretokens.measure.measurement import Measurement, MeasureOptions, measure_embedding
from raretokens.measure.model import load_model
from raretokens.measure.output import signed_numbers
from raretokens.measure.row_order import arrange_rows
from raretokens.measure.word_similarity import read_similarity_sets
from raretokens.metrics.bootstrap import resample
from raretokens.metrics.predictions import perplexity, uniq
from raretokens.metrics.score_files import flatten
from raretokens.metrics.similarity import word_similarity
from raretokens.vocabulary import SPECIALS, VOCABULARY, Vocabulary
from reproduction.commands import trained_run
from reproduction.commands.export import export_run
from reproduction.corpora.tokenization.settings import Groups
from reproduction.corpora.tokenization.token_files import tokens
from reproduction.corpora.tokenization.tokenizer import Tokenizer
from reproduction.tasks.evaluation.geometry import geometry
from reproduction.tasks.evaluation.job_specs import LanguageModelEvaluation
from reproduction.tasks.evaluation.language_model import teacher_forced
from reproduction.training.models.registry import build, load_weights

ROOT = Path(__file__).parents[1]
RNG = np.random.default_rng(0)


def measure(name: Path | str, counts: np.ndarray | None = None) -> list[Measurement]:
    """Measure every embedding of a model."""
    model = load_model(str(name))
    options = MeasureOptions(has_intervals=True)
    return [
        measure_embedding(model, kind, arrange_rows(model, kind, counts), options, print) for kind in model.embeddings
    ]


def numbers(one: Measurement) -> dict[str, float]:
    return {path: number for path, number, _ in signed_numbers(one.metrics)}


@pytest.mark.parametrize("specials", [[], ["<unk>"], ["<s>", "</s>"], ["<unk>", "<pad>", "<s>", "</s>"]])
@pytest.mark.parametrize("types", [10, 33, 400])
def test_frequency_groups_have_their_shares_of_the_types_that_exist(tmp_path, specials, types):
    """A special token that the vocabulary lacks is no type."""
    words = np.array(specials + [f"w{id}" for id in range(types - len(specials))])
    np.savez(tmp_path / "x.npz", table=RNG.standard_normal((types, 4)).astype(np.float32), words=words)
    model, counts = load_model(str(tmp_path / "x.npz")), RNG.permutation(types)
    (role,) = model.embeddings
    found = arrange_rows(model, role, counts)
    assert [int((found.groups[found.rows >= 0] == code).sum()) for code in range(3)] == [
        round(0.3 * types), round(0.8 * types) - round(0.3 * types), types - round(0.8 * types)
    ]  # fmt: skip


def close(given: dict[str, float], expected: dict[str, float], rel: float = 1e-6) -> None:
    for path, number in expected.items():
        assert given[path] == pytest.approx(number, rel=rel, abs=rel), path


@pytest.fixture(scope="module")
def scale(tmp_path_factory) -> Path:
    folder = tiny.create(tmp_path_factory.mktemp("scale"))
    export_run(trained_run.find(str(folder / "data/runs/lm/pieces")), folder / "out")
    shutil.copytree(folder / "out", folder / "copy")
    return folder


@pytest.fixture(scope="module")
def reported(scale) -> dict[str, dict]:
    """The command on the exported run and a copy of it, in a process that has nothing of the pipeline's libraries."""
    words = (scale / "data/corpus/lm/test.txt").read_text().split()[:60]
    pairs = [f"{one}\t{other}\t{len(one) - len(other)}" for one, other in zip(words[::2], words[1::2], strict=True)]
    (scale / "people.tsv").write_text("\n".join(pairs))
    code = """
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        refused = "pydantic yaml pandas ctranslate2 accelerate sacrebleu rich dvc requests psutil".split()
        if name.partition(".")[0] in refused and "transformers" not in sys.modules:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Refusing())
sys.argv = ["raretokens", "measure", "out", "copy", "--text", "data/corpus/lm", "--out", "page", "--compare",
            "--similarity", "people.tsv"]
from raretokens.cli import main
main()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], cwd=scale, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "isotropy.total" in done.stdout and "tokens/s" in done.stderr
    return {one["model"]: one for one in json.loads((scale / "page/measure.json").read_text())}


def test_an_exported_run_gives_the_pipeline_s_numbers(scale, reported):
    known = Vocabulary.read(scale / "data/tokens/lm" / VOCABULARY)
    table, groups = tiny.table(scale, "lm", "pieces"), known.frequency_groups(Groups(**tiny.GROUPS))
    expected = geometry(SimpleNamespace(embedding=table, groups=groups, vocabulary=known))
    run, text = trained_run.find(str(scale / "data/runs/lm/pieces")), tokens(scale / "data/tokens/lm", "test")
    trained = build("decoder", run.run["shape"], len(table), 64)
    load_weights(trained, run.model)
    logprob, prediction, _ = teacher_forced(trained.eval(), text, LanguageModelEvaluation(**tiny.EVALUATION))
    expected["ppl"] = perplexity(logprob, text, groups, window=32, context=16)
    expected["uniq"] = uniq(prediction, groups)
    ranks = text - len(SPECIALS) + 1  # ids of the pipeline fall in count
    bins = {f"{low + 1}-{high}": -logprob[(ranks > low) & (ranks <= high)] for low, high in ((0, 10), (10, 100))}
    expected["loss_by_rank"] = ({name: float(nll.mean()) for name, nll in bins.items()}, reported["out"]["signatures"])
    sets, encode = read_similarity_sets([scale / "people.tsv"]), Tokenizer(scale / "data/tokens/lm").encode
    expected["spearman"] = word_similarity(table, sets, encode, form="leading-space")
    wanted = {path: number for path, number, _ in signed_numbers(expected)}
    close(dict(flatten(reported["out"]["metrics"])), wanted)
    assert reported["out"]["facts"]["measured rows"] == known.types - 1


def test_intervals_of_the_loss_by_rank_resample_blocks_of_the_text():
    rng = np.random.default_rng(0)
    logprob, text, ranks = rng.normal(size=1000), rng.integers(0, 30, 1000), np.arange(30)  # id 0 is a special token
    losses, replicates = loss_by_rank(logprob, text, ranks)
    assert list(losses) == ["1-10", "11-100"]
    blocks = np.arange(1000).reshape(-1, 5)  # 200 blocks
    for number, chosen in enumerate(resample(len(blocks))[:3]):
        drawn = blocks[chosen].ravel()
        rare = drawn[text[drawn] > 10]
        assert replicates["11-100"][number] == pytest.approx(-logprob[rare].mean())
    assert losses["1-10"] == pytest.approx(-logprob[(text > 0) & (text <= 10)].mean())


def test_the_reports_are_one_page_with_figures_and_tables_that_others_read(scale, reported):
    page = (scale / "page/index.html").read_text()
    assert "copy" in page and page.count("data:image/svg+xml") == 4 and 'src="http' not in page
    assert {path.name for path in (scale / "page").iterdir()} == {
        "index.html", "measure.md", "measure.csv", "measure.json",
        "projection.svg", "norm.svg", "singular_values.svg", "hidden_states.svg",
    }  # fmt: skip
    rows = list(csv.DictReader((scale / "page/measure.csv").read_text().splitlines()))
    one = next(row for row in rows if (row["model"], row["metric"]) == ("out", "isotropy.total"))
    assert float(one["value"]) == reported["out"]["metrics"]["isotropy"]["total"]
    assert one["signature"] == dict(map(tuple, reported["out"]["signatures"]))["isotropy"]
    text = (scale / "page/measure.md").read_text()
    assert "## copy minus out" in text and "| ppl.total |" in text and "| isotropy.total |" in text
    line = next(line for line in text.splitlines() if line.startswith("| ppl.total |") and "[" in line)
    assert "[0, 0]" in line.replace("-0", "0")  # the same model: every draw has the same perplexity
    assert "mean_cosine.last" in dict(flatten(reported["out"]["metrics"]["hidden"]))
    assert "Hidden states by layer: out" in page and "## Hidden states by layer: out" in text
    assert "| hidden.mean_cosine.last |" in text and "| hidden.iso_score.last |" not in text


def test_word_similarity_is_gensim_s_and_that_of_the_whitened_rows(tmp_path):
    gensim = pytest.importorskip("gensim")
    names, rows = [f"word{i}" for i in range(200)], RNG.normal(0.3, 1, (200, 12)).astype(np.float32)
    pairs = [(*RNG.choice([*names, "unseen"], 2), score) for score in RNG.random(90)]
    (tmp_path / "people.tsv").write_text("".join(f"{one}\t{other}\t{score}\n" for one, other, score in pairs))
    vectors = gensim.models.KeyedVectors(12)
    vectors.add_vectors(names, rows)
    vectors.save_word2vec_format(str(tmp_path / "vectors.txt"))
    model, counts = load_model(str(tmp_path / "vectors.txt")), RNG.integers(1, 900, 200)
    sets = read_similarity_sets([tmp_path / "people.tsv"])
    for is_large in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(streaming, "MAX_WORK", 0 if is_large else streaming.MAX_WORK)
            arrangement = arrange_rows(model, "matrix", counts)
            one = measure_embedding(model, "matrix", arrangement, MeasureOptions(similarity_sets=sets), print)
        share = counts / counts.sum()
        centred = rows - share @ rows
        _, singular, right = np.linalg.svd(np.sqrt(share)[:, None] * centred, full_matrices=False)
        expected = {}
        for before, table in (("", rows), ("zipfian.", centred @ right.T / singular)):
            judged = gensim.models.KeyedVectors(12)
            judged.add_vectors(names, table)
            spearman = judged.evaluate_word_pairs(str(tmp_path / "people.tsv"), case_insensitive=False)[1]
            expected[f"{before}spearman.people"] = 100 * spearman[0]
        close(numbers(one), expected, 1e-4)
        assert numbers(one)["similarity_pairs.people"] == np.mean(["unseen" not in pair for pair in pairs])
        assert numbers(one)["all_but_top.spearman.people"] != numbers(one)["spearman.people"]
    (tmp_path / "marked.tsv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "people.tsv").read_bytes())
    assert read_similarity_sets([tmp_path / "marked.tsv"])["marked"] == sets["people"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/people.tsv").write_text("one\ttwo\t1\n")
    with pytest.raises(UserError, match="other/people.tsv: another file is called people as well"):
        read_similarity_sets([tmp_path / "people.tsv", tmp_path / "other/people.tsv"])
    with pytest.raises(UserError, match="nowhere.tsv: No such file"):
        read_similarity_sets([tmp_path / "nowhere.tsv"])
    (tmp_path / "bad.tsv").write_text("one\ttwo\n")
    with pytest.raises(UserError, match="bad.tsv: should be lines of word, word and score"):
        read_similarity_sets([tmp_path / "bad.tsv"])


def test_published_isotropy_of_pythia():
    """Where the model is: EleutherAI/pythia-70m in the folder that RARETOKENS_MODELS names."""
    folder = Path(os.environ.get("RARETOKENS_MODELS", "")) / "pythia-70m"
    if not folder.joinpath("config.json").is_file():
        pytest.skip("a folder of models: name it in RARETOKENS_MODELS")
    given, taken = (numbers(one)["isotropy_both_signs.total"] for one in measure(folder))
    assert (given, taken) == (pytest.approx(0.958, abs=5e-4), pytest.approx(0.083, abs=5e-4))


class Program:
    def __reduce__(self):
        return (os.system, ("touch executed",))


def test_nothing_is_unpickled_or_executed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("pytorch_model.bin").write_bytes(pickle.dumps(Program()))
    settings = {"auto_map": {"AutoConfig": "evil.Config"}, "model_type": "evil", "architectures": ["EvilForCausalLM"]}
    Path("config.json").write_text(json.dumps(settings))
    Path("evil.py").write_text("open('executed', 'w')")
    np.save("objects.npy", np.array([[Program()]], dtype=object), allow_pickle=True)
    reasons = {".": "a program that runs when it is opened; save the model as safetensors"}
    reasons |= {"pytorch_model.bin": "a program that runs", "objects.npy": "should be rows x width of float16"}
    for name, reason in reasons.items():
        with pytest.raises(UserError, match=reason):
            load_model(str(tmp_path / name))
    save_file({"embed_tokens.weight": RNG.normal(size=(4, 2)).astype(np.float32)}, "model.safetensors")
    Path("text.txt").write_text("one two\n")
    Path("vocab.json").write_text(json.dumps({"o": 0, "n": 1, "e": 2, "t": 3}))
    Path("merges.txt").write_text("#version: 0.2\n")
    Path("tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}))
    monkeypatch.setattr(sys, "argv", ["raretokens", "measure", ".", "--text", "text.txt"])
    main()
    assert "transformers cannot read config.json: it needs code of its own folder, which is not run" in capsys.readouterr().err
    assert not Path("executed").exists()


def test_a_table_too_large_for_memory_has_the_same_numbers(tmp_path, monkeypatch):
    table = (RNG.normal(0, 0.3, (3000, 24)) + 0.2 * RNG.normal(size=24)).astype(np.float32)
    counts = (1e6 / np.arange(1, 3001)).astype(np.int64)
    save_file({"table": table}, tmp_path / "table.safetensors")
    (whole,) = measure(tmp_path / "table.safetensors", counts)
    monkeypatch.setattr(streaming, "MAX_WORK", 0)
    monkeypatch.setattr(streaming, "BLOCK", 700)
    (streamed,) = measure(tmp_path / "table.safetensors", counts)
    expected = {path: number for path, number in numbers(whole).items() if path != "all_but_top.isotropy"}
    close(numbers(streamed), expected, 2e-5)
    assert streamed.metrics["isotropy"][1] == whole.metrics["isotropy"][1] + "|arithmetic:float32"
    assert numbers(streamed)["all_but_top.isotropy"] == pytest.approx(numbers(whole)["all_but_top.isotropy"], abs=0.02)
    assert [row["id"] for row in streamed.candidates] == [row["id"] for row in whole.candidates]
    assert streamed.bootstrap.keys() == whole.bootstrap.keys() >= {"mean_cosine", "isotropy.rare", "effective_rank.total"}
    for path, replicates in whole.bootstrap.items():
        np.testing.assert_allclose(streamed.bootstrap[path], replicates, rtol=1e-4, atol=1e-4, err_msg=path)
    monkeypatch.setattr(streaming, "max_partition_rows", lambda width: 1500)
    (thinned,) = measure(tmp_path / "table.safetensors", counts)
    assert thinned.metrics["isotropy"][1].endswith("|arithmetic:float32|evenly-spaced:1500")
    assert numbers(thinned)["isotropy.total"] == pytest.approx(numbers(whole)["isotropy.total"], abs=0.02)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_a_file_that_shrinks_after_loading_costs_one_line(tmp_path, dtype):
    table, path = RNG.normal(size=(500, 6)).astype(dtype), tmp_path / "table.npy"
    np.save(path, table)
    model = load_model(str(path))
    (stored,) = model.embeddings.values()
    rows = stored.read(np.arange(500))
    os.truncate(path, path.stat().st_size - 1)  # a view into a memory map would no longer be readable
    assert np.array_equal(rows, table) and rows.flags.writeable
    assert np.array_equal(stored.read(np.array([498, 3, 3])), table[[498, 3, 3]]) and stored.read(np.arange(0)).shape == (0, 6)
    for ids in (np.array([499]), np.arange(500)):
        with pytest.raises(UserError, match=r"table\.npy: is cut off before the end of the matrix"):
            stored.read(ids)
    os.truncate(path, 0)
    with pytest.raises(UserError, match=r"table\.npy: is cut off"):
        arrange_rows(model, "matrix")
