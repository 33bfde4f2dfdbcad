"""Comparison of two embeddings: paired intervals, the verdict in words, the summary and the progress bar."""

import io
import json
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest

from raretokens.cli import main
from raretokens.errors import UserError
from raretokens.measure.measurement import MeasureOptions, measure_embedding
from raretokens.measure.model import distinct_names, load_model
from raretokens.measure.notes import progress
from raretokens.measure.output import compare, difference_lines, summary
from raretokens.measure.page import write
from raretokens.measure.row_bootstrap import row_replicates
from raretokens.measure.row_order import arrange_rows
from raretokens.measure.stored_matrix import StoredMatrix
from raretokens.metrics.bootstrap import BLOCKS, REPLICATES, resample
from raretokens.metrics.isotropy import isotropy, log_partitions
from raretokens.metrics.spectrum import effective_rank, singular_values
from raretokens.vocabulary import PAD

ROWS, WIDTH = 600, 16


def measured(folder, name: str, table: np.ndarray, words: np.ndarray):
    np.savez(folder / f"{name}.npz", table=table.astype(np.float32), words=words)
    model = load_model(str(folder / f"{name}.npz"))
    (role,) = model.embeddings
    arrangement = arrange_rows(model, role, is_sorted=True)
    return measure_embedding(model, role, arrangement, MeasureOptions(has_intervals=True), lambda note: None)


def test_cosines_have_paired_intervals_and_a_verdict(tmp_path):
    """Rare rows share a direction in the first model. The same words may have other rows in the second."""
    random = np.random.default_rng(0)
    rows, words = random.standard_normal((ROWS, WIDTH)), np.array([f"w{id}" for id in range(ROWS)])
    shared = np.where(np.arange(ROWS) > 480, 3.0, 0.3)[:, None] * np.eye(WIDTH)[0]
    first, second = measured(tmp_path, "before", rows + shared, words), measured(tmp_path, "after", rows, words)
    (found,) = compare([first, second])
    by_path = {one.path: one for one in found.differences}
    higher = "mean_cosine", "cosine.mean.total", "cosine.mean.rare", "rare_freq_cosine"
    for path in (*higher, "isotropy.rare", "effective_rank.total", "singular_value.2"):
        one = by_path[path]
        assert one.low < one.value < one.high and (one.high < 0 if path in higher else one.low > 0), path
    assert found.verdict == "after is more isotropic than before; rare rows gain most."
    assert compare([second, first])[0].verdict == "before is less isotropic than after; rare rows lose most."
    near = measured(tmp_path, "near", rows + 1e-3 * random.standard_normal((ROWS, WIDTH)), words)
    (paired,) = compare([second, near])
    assert paired.verdict == "near and after do not differ in mean cosine beyond chance."
    width = {path: np.ptp(np.quantile(values, (0.025, 0.975))) for path, values in second.bootstrap.items()}
    one = next(one for one in paired.differences if one.path == "mean_cosine")
    assert one.high - one.low < 0.1 * width["mean_cosine"]  # of differences, since both have the same types


def test_where_isotropy_depends_on_the_length_of_rows_both_values_are_noted(tmp_path):
    """Long rows have a low I(W), and rows near zero a high one, with the same directions."""
    random = np.random.default_rng(5)
    rows, words = random.standard_normal((ROWS, WIDTH)), np.array([f"w{id}" for id in range(ROWS)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cone = rows + 0.7 * np.eye(WIDTH)[0]
    unit, long = measured(tmp_path, "unit", rows, words), measured(tmp_path, "long", 30 * rows, words)
    short = measured(tmp_path, "short", 0.01 * cone, words)
    assert not any("their length" in note for note in unit.notes)
    (note,) = (note for note in long.notes if "their length" in note)
    assert note.startswith("matrix embedding: I(W) of all, frequent, medium, rare rows depends on their length: ")
    both = [long.metrics[metric][0]["total"] for metric in ("isotropy", "isotropy_unit_rms")]
    assert f"for all rows it is {both[0]:.3g} at their RMS length of 30, and {both[1]:.3g} at unit RMS length" in note
    assert both[1] == pytest.approx(unit.metrics["isotropy_unit_rms"][0]["total"], rel=1e-5)
    assert any("their length" in note for note in short.notes)
    longer, shorter = compare([unit, long])[0].notes[0], compare([unit, short])[0].notes[0]
    assert longer.startswith("The difference in I(W) of all rows depends on their length: -0.9")
    assert longer.endswith("at unit RMS length.") and " +0.0" in shorter and ", and -0." in shorter
    text = "\n".join(difference_lines(compare([unit, long])))
    assert longer in text and "isotropy_unit_rms.total" in text
    write([unit, long], tmp_path / "page", compare([unit, long]))
    assert all(longer in (tmp_path / "page" / name).read_text() for name in ("index.html", "measure.md"))
    assert note in json.loads((tmp_path / "page/measure.json").read_text())[1]["notes"]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scale", [0.3, 1.3, 3.0])
def test_a_difference_lies_in_its_interval(tmp_path, seed, scale):
    """Also where replicates lie beside the value, as those of a minimum over a maximum do."""
    random = np.random.default_rng(seed)
    rows, words = random.standard_normal((ROWS, WIDTH)) / WIDTH, np.array([f"w{id}" for id in range(ROWS)])
    first, second = measured(tmp_path, "first", rows, words), measured(tmp_path, "second", scale * rows, words)
    (found,) = compare([first, second])
    known = [one for one in found.differences if one.low is not None]
    assert len(known) == 13 and all(one.low <= one.value <= one.high for one in known)


def test_a_quantised_embedding_is_compared_with_the_original(tmp_path):
    random = np.random.default_rng(0)
    rows, words = random.standard_normal((ROWS, WIDTH)).astype(np.float32), np.array([f"w{id}" for id in range(ROWS)])
    scale = 127 / float(np.abs(rows).max())
    integers = np.round(rows * scale).astype(np.int8)
    first, second = measured(tmp_path, "float", rows, words), measured(tmp_path, "other", rows, words)
    (tmp_path / "int8").write_bytes(integers.tobytes())
    matrix = StoredMatrix(tmp_path / "int8", 0, integers.shape, "I8", "table", scale).checked()
    model = replace(load_model(str(tmp_path / "other.npz")), name="int8", embeddings={"matrix": matrix})
    quantised = measure_embedding(
        model, "matrix", arrange_rows(model, "matrix", is_sorted=True), MeasureOptions(has_intervals=True), lambda note: None
    )
    paths = {one.path for one in compare([first, second])[0].differences}
    (found,) = compare([first, quantised])
    assert {one.path for one in found.differences} == paths and {"mean_cosine", "isotropy.total"} <= paths
    assert next(abs(one.value) for one in found.differences if one.path == "mean_cosine") < 1e-3
    assert found.verdict == "int8 and float do not differ in mean cosine beyond chance."


@pytest.mark.parametrize("zeros", [0, ROWS // 2])
def test_replicates_lie_around_the_metric(tmp_path, zeros):
    random = np.random.default_rng(1)
    rows = random.standard_normal((ROWS, WIDTH)) + 0.5 * (zeros == 0)
    rows[random.permutation(ROWS)[:zeros]] = 0  # no row of zeros makes a pair with itself
    one = measured(tmp_path, "x", rows, np.array([f"w{id}" for id in range(ROWS)]))
    value = one.metrics["mean_cosine"][0]
    values = one.bootstrap["mean_cosine"]
    assert values.mean() == pytest.approx(value, abs=2 * values.std() / 10)


def test_replicates_are_those_of_a_bootstrap_with_its_own_eigenvectors():
    """Of repeated rows, the metrics have no other sums than those of weighted rows."""
    random = np.random.default_rng(2)
    matrix = random.standard_normal((3000, 12)) * np.geomspace(1, 0.1, 12) + np.eye(12)[0] * 0.6
    groups = np.full(3000, 3, np.int8)
    tokens = [f"w{id}" for id in range(3000)]
    block = np.array([crc32(token.encode()) % BLOCKS for token in tokens])
    found = row_replicates(matrix, groups, tokens)
    exact = []
    for drawn in resample(BLOCKS)[:: REPLICATES // 50]:
        first, *rows = np.concatenate([np.setdiff1d(np.flatnonzero(block == one), [PAD]) for one in drawn])
        repeated = matrix[[first, 0, *rows]]  # another row at the place of padding, which does not count
        alike = np.full(len(repeated), 3)
        values = singular_values(repeated, alike)[0]
        total = isotropy(log_partitions(repeated, alike, ["total"]))[0]["total"]
        exact.append({"isotropy.total": total, "effective_rank.total": effective_rank(repeated, alike)[0]["total"]})
        exact[-1] |= {"singular_value.2": values[1], "singular_value.3": values[2]}
    for path in ("isotropy.total", "effective_rank.total", "singular_value.2", "singular_value.3"):
        ours, right = found[path][:: REPLICATES // 50], np.array([one[path] for one in exact])
        assert np.corrcoef(ours, right)[0, 1] > 0.97, path
        assert ours.std() == pytest.approx(right.std(), rel=0.1), path


def test_mean_lengths_have_replicates():
    matrix = np.random.default_rng(3).standard_normal((500, 4)) * np.arange(1, 501)[:, None]
    groups = np.repeat(np.array([0, 1, 2], np.int8), [150, 250, 100])
    found = row_replicates(matrix, groups, [""] * 500)
    for code, name in enumerate(("freq", "med", "rare")):
        kept = np.setdiff1d(np.flatnonzero(groups == code), [1])
        length, values = np.linalg.norm(matrix[kept], axis=1).mean(), found[f"norm_by_frequency.{name}"]
        assert abs(values.mean() - length) < 0.3 * values.std() and values.std() < 0.2 * length


def test_models_with_files_of_one_name_are_told_apart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed, folder in enumerate(("before", "after", "other")):
        (tmp_path / folder).mkdir()
        rows = np.random.default_rng(seed).standard_normal((200, 4)) + (folder == "before")
        np.save(tmp_path / folder / "w.npy", rows.astype(np.float32))
    monkeypatch.setattr("sys.argv", ["raretokens", "measure", "before/w.npy", "after/w.npy", "--sorted", "--compare"])
    main()
    assert "after/w is more isotropic than before/w" in capsys.readouterr().out
    assert distinct_names(["a/w.npy", "b/w.npz", "v.txt"]) == ["a/w", "b/w", None]
    assert distinct_names(["w.npy", "w.txt"]) == ["w.npy", "w.txt"]
    with pytest.raises(UserError, match="before/w.npy: is given twice"):
        distinct_names(["before/w.npy", "after/w.npy", "./before/w.npy"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("w.npy --groups nan,0.5,0.5", "should be three shares that add up to 1"),
        ("w.npy --out w.npy", "--out: w.npy is a file; should be a folder"),
        ("w.npy --compare", "--compare: needs two models or more"),
        ("w.npy --tokens 5", "--tokens: needs --text as well"),
        ("w.npy --window 5", "--window: needs --text as well"),
        ("w.npy --test w.npy", "--test: needs --text"),
        ("w.npy --text nowhere.txt", "nowhere.txt: no such text"),
        ("w.npy --similarity pairs.tsv", "pairs.tsv: No such file"),
        ("w.npy --vocabulary words.txt", "words.txt: no such file"),
        ("nowhere.npy", "nowhere.npy: no such file or model folder"),
        ("gpt2", "a model of the Hugging Face Hub is hf://owner/name, such as hf://openai-community/gpt2"),
        ("Qwen/Qwen2.5-0.5B", "such as hf://Qwen/Qwen2.5-0.5B"),
        ("https://huggingface.co/Qwen/Qwen2.5-0.5B", "such as hf://Qwen/Qwen2.5-0.5B"),
        ("hf:Qwen/Qwen2.5-0.5B@v1", "such as hf://Qwen/Qwen2.5-0.5B@v1"),
    ],
)
def test_a_mistake_is_told_before_anything_is_measured(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "w.npy", np.ones((200, 4), np.float32))
    monkeypatch.setattr("sys.argv", ["raretokens", "measure", *words.split(), "--sorted"])
    with pytest.raises(SystemExit) as end:
        main()
    told = capsys.readouterr()
    assert message in f"{end.value} {told.err}" and not told.out


def test_a_summary_has_ten_lines_and_the_numbers_of_the_measurement(tmp_path):
    random = np.random.default_rng(4)
    one = measured(tmp_path, "x", random.standard_normal((ROWS, WIDTH)), np.array([f"w{id}" for id in range(ROWS)]))
    lines = summary(one)
    assert len(lines) <= 12 and lines[0] == f"x: {ROWS} rows x {WIDTH}, float32"
    for label, metric in (("I(W) ", "isotropy"), ("I(W), unit length", "isotropy_unit_rms")):
        (isotropy,) = (line.split() for line in lines if line.startswith(f"  {label}"))
        expected = [one.metrics[metric][0][group] for group in ("total", "freq", "med", "rare")]
        assert list(map(float, isotropy[-4:])) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_only_a_terminal_gets_a_bar(monkeypatch, is_terminal):
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr("sys.stderr", stream)
    with progress("x", 2) as report:
        report("geometry")
        report("note: a row is missing")
        report("figures")
    written = stream.getvalue()
    assert "x: note: a row is missing\n" in written
    assert ("of 2 parts" in written) == is_terminal and written.startswith("x: geometry\n") != is_terminal
