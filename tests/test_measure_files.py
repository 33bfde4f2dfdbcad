"""Generated files of vectors: what is measured is what was written, or one line names the format and the way out."""

import gzip
import io
import json
import pickle
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save, save_file
from tiny.measured import write_word_level

from raretokens.errors import UserError
from raretokens.measure.measurement import MeasureOptions, measure_model
from raretokens.measure.model import Model, load_model
from raretokens.measure.word_similarity import read_similarity_sets

RANDOM = np.random.default_rng(0)
WORDS = [". . .", "at name@domain.com", "3", "1 2", "nan", "inf", "-", "naïve", "猫", "\u00a0", "a\u00a0b", '"', "e5", "x=1 y"]


def vectors(rows: int = 60) -> tuple[list[str], np.ndarray]:
    words = [*WORDS, *(f"w{place}" for place in range(rows - len(WORDS)))]
    width = RANDOM.integers(2, 9)
    return [words[place] for place in RANDOM.permutation(rows)], RANDOM.normal(size=(rows, width)).astype(np.float32)


def lines(words: list[str], rows: np.ndarray, separator: str = " ") -> list[str]:
    return [separator.join([word, *map(str, row)]) for word, row in zip(words, rows, strict=True)]


def npy(rows: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, rows)
    return file.getvalue()


def check(path: Path, words: list[str] | None, rows: np.ndarray) -> Model:
    found = load_model(str(path))
    (stored,) = found.embeddings.values()
    assert stored.shape == rows.shape
    assert np.array_equal(stored.read(np.arange(len(rows))), rows)
    assert found.row_names == words
    (one,) = measure_model(found, MeasureOptions(), print)
    assert one.facts["measured rows"] == len(rows) and "rare" not in one.metrics["isotropy"][0]
    return found


@pytest.mark.parametrize("separator", [" ", "\t"])
@pytest.mark.parametrize("header", [None, 0, 1, -3, 1000])
@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n"])
def test_text_is_read_whatever_its_header_and_its_ends_say(tmp_path, separator, header, end):
    words, rows = vectors()
    first = [] if header is None else [f"{len(words) + header} {rows.shape[1]}"]
    trailing = " " if end == "\n" else ""  # fastText ends lines so
    content = "\n".join([*first, *(line + trailing for line in lines(words, rows, separator))]) + end
    (tmp_path / "vectors.txt").write_bytes(content.encode())
    found = check(tmp_path / "vectors.txt", words, rows)
    assert ("declares" in "".join(found.notes)) == (header not in (None, 0))
    with gzip.open(tmp_path / "vectors.txt.gz", "wb") as file:
        file.write(content.encode())
    check(tmp_path / "vectors.txt.gz", words, rows)


def test_numbers_may_be_aligned_and_a_tab_may_end_the_word(tmp_path):
    words, rows = [f"w{place}" for place in range(20)], RANDOM.normal(size=(20, 4)).astype(np.float32)
    forms = {"aligned": "{}  {}  {} {}   {}", "tab": "{}\t{} {} {} {}"}
    for name, form in forms.items():
        (tmp_path / name).write_text("\n".join(form.format(word, *row) for word, row in zip(words, rows, strict=True)))
        check(tmp_path / name, words, rows)


def test_the_first_of_duplicates_counts_as_in_gensim(tmp_path):
    gensim = pytest.importorskip("gensim")
    words, rows = [f"w{place}" for place in range(40)], RANDOM.normal(size=(40, 6)).astype(np.float32)
    words[30:] = words[:10]
    path = tmp_path / "vectors.txt"
    path.write_text("40 6\n" + "\n".join(lines(words, rows)))
    right = gensim.models.KeyedVectors.load_word2vec_format(str(path))
    found = check(path, right.index_to_key[:30], right.vectors[:30])
    assert "10 rows of words that stand twice" in "".join(found.notes)


@pytest.mark.parametrize("content", [lambda rows: save({"table": rows}), npy], ids=["safetensors", "npy"])
def test_the_format_of_a_file_without_a_suffix_is_that_of_its_first_bytes(tmp_path, content):
    rows = RANDOM.normal(size=(50, 6)).astype(np.float32)
    (tmp_path / "vectors").write_bytes(content(rows))
    check(tmp_path / "vectors", None, rows)


@pytest.mark.parametrize("name", ["vectors.bin", "vectors.w2v", "vectors", "vectors.bin.gz"])
def test_the_binary_form_of_word2vec_is_read_by_gensim(tmp_path, name, monkeypatch):
    gensim = pytest.importorskip("gensim")
    words, rows = [f"w{place}" for place in range(50)], RANDOM.normal(size=(50, 20)).astype(np.float32)
    vectors = gensim.models.KeyedVectors(20)
    vectors.add_vectors(words, rows)
    vectors.save_word2vec_format(str(tmp_path / name), binary=True)
    check(tmp_path / name, words, rows)
    with (gzip.open if name.endswith(".gz") else open)(tmp_path / name, "rb") as file:
        content = file.read()
    # the original tool ends rows with a line feed
    rows_of_original = b"".join(word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(words, rows, strict=True))
    (tmp_path / "original.bin").write_bytes(b"50 20\n" + rows_of_original)
    check(tmp_path / "original.bin", words, rows)
    (tmp_path / "cut.bin").write_bytes(content[:-30])
    with pytest.raises(UserError, match="gensim cannot read it: unexpected end"):
        load_model(str(tmp_path / "cut.bin"))
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(UserError, match="needs gensim: pip install gensim$"):
        load_model(str(tmp_path / "original.bin"))


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_read_in_any_order_of_bytes_and_of_rows(tmp_path, dtype, order):
    rows = RANDOM.normal(size=(300, 7)).astype(dtype)
    right = rows.astype(np.float64 if rows.itemsize == 8 else np.float32)
    np.save(tmp_path / "vectors.npy", np.asarray(rows, order=order))
    check(tmp_path / "vectors.npy", None, right)
    np.savez(tmp_path / "alone.npz", np.asarray(rows, order=order))
    check(tmp_path / "alone.npz", None, right)
    words = [f"w{place}" for place in range(300)]
    np.savez_compressed(tmp_path / "words.npz", vectors=rows, words=np.array(words), counts=np.arange(300))
    check(tmp_path / "words.npz", words, right)


def test_the_tensor_of_model2vec_is_known_and_shared_rows_have_no_tokens(tmp_path):
    rows = RANDOM.normal(size=(30, 6)).astype(np.float32)
    write_word_level(tmp_path, [f"w{place}" for place in range(30)], unk_token="w0")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "model2vec", "architectures": ["StaticModel"]}))
    save_file({"embeddings": rows}, tmp_path / "model.safetensors")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        (stored,) = load_model(str(path)).embeddings.values()
        assert np.array_equal(stored.read(np.arange(30)), rows)
    assert load_model(str(tmp_path)).tokens[3] == "w3"
    shared = {"embeddings": rows, "weights": np.ones(40), "mapping": np.arange(40) % 30}
    save_file(shared, tmp_path / "model.safetensors")
    found = load_model(str(tmp_path))
    assert found.tokens == {} and "several share a row" in "".join(found.notes)
    (tmp_path / "words.txt").write_text("\n".join(f"row{place}" for place in range(30)))
    assert load_model(str(tmp_path), tmp_path / "words.txt").tokens[3] == "row3"


ONES = np.ones((400, 2), np.float32)
REFUSED = {
    "model.onnx": (b"\x08\x07\x12\x07pytorch" + bytes(90), "an ONNX file"),
    "cc.en.300.bin": (b"\xba\x16\x4f\x2f\x0c\0\0\0" + bytes(90), "a model of fastText; measure its .vec file"),
    "model.safetensors": (b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 123\n", "git lfs pull"),
    "vectors.kv": (pickle.dumps({"a": 1}), "of gensim by save_word2vec_format"),
    "weights": (pickle.dumps({"a": 1}) + bytes(64), "a program that runs"),
    "pytorch_model.bin": (b"PK\x03\x04" + bytes(64), "cannot be unpacked"),
    "empty.safetensors": (b"", "is empty"),
    "list.safetensors": ((9).to_bytes(8, "little") + b"[1, 2, 3]" + bytes(64), "header does not describe tensors"),
    "broken.safetensors": ((40).to_bytes(8, "little") + b"{not json" + b" " * 60, "header does not describe tensors"),
    "numbers.safetensors": ((8).to_bytes(8, "little") + b'{"a": 1}' + bytes(64), "header does not describe tensors"),
    "ragged.txt": (b"a 1 2\nb 1\n", "line 2: should be a word and 2 numbers"),
    "short.vec": (b"2 5\na 1 2\nb 1 2\n", "line 2: should be a word and 5 numbers"),
    "prose.txt": (b"Once upon a time\nthere was\n", "line 2: should be a word and 3 numbers"),
    "words.txt": (b"one\ntwo\n", "line 1 should be a word and its numbers"),
    "letters.txt": (b"a 1 2\nb 1 x\n", "lines 1 to 2, each should be a word and 2 numbers.*: could not convert string 'x'"),
    "blank.txt": (b"\n\n", "contains no word vectors"),
    "two.safetensors": (save({"a": ONES, "b": ONES}), "which of a, b is the embedding"),
    "cut.safetensors": (save({"table": ONES})[:-100], "is cut off"),
    "int8.safetensors": (save({"table": ONES.astype(np.int8)}), "stored as I8; .* measure the model before it was quantised"),
    "cut.txt.gz": (gzip.compress(b"a 1 2\n" * 99)[:-12], "cannot be unpacked"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_one_line_with_the_way_out(tmp_path, name):
    content, reason = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=reason) as error:
        load_model(str(tmp_path / name))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("pairs", "undefined"),
    [("a\tb\t3\n", 1), ("a\tb\t3\nb\tc\t3\n", 1), ("a\tb\t3\na\tz\t1\n", 1), ("a\tb\t3\nb\tc\t1\n", 0)],
)
def test_an_undefined_correlation_is_noted(tmp_path, pairs, undefined):
    """Of one pair with rows, or of equal scores."""
    (tmp_path / "x.vec").write_text("a 1 0 2\nb 0.5 1 1\nc 1 -1 3\nd 2 0 1\n")
    (tmp_path / "people.tsv").write_text(pairs)
    options = MeasureOptions(similarity_sets=read_similarity_sets([tmp_path / "people.tsv"]))
    (one,) = measure_model(load_model(str(tmp_path / "x.vec")), options, print)
    noted = [note for note in one.notes if note.startswith("spearman.people is not defined: fewer than two pairs, or equal")]
    assert len(noted) == undefined and ("people" in one.metrics.get("spearman", ({},))[0]) == (not undefined)


LAYOUTS = {  # files -> what is to be measured
    "sentence-transformers": ({"modules.json": b"[]", "0_Transformer/model.safetensors": save({"table": ONES})}, "0_Transformer"),
    "static": ({"0_StaticEmbedding/model.safetensors": save({"table": ONES}), "1_Pooling/a.json": b"{}"}, "0_StaticEmbedding"),
    "nested": ({"models/first/model.safetensors": save({"table": ONES})}, "models/first"),
    "spaCy": ({"config.cfg": b"", "vocab/lookups.bin": b"\x81", "vocab/vectors": npy(ONES)}, "vocab/vectors"),
    "vocab": ({"lookups.bin": b"\x81", "vectors": npy(ONES), "vectors.cfg": b"{}"}, "vectors"),
    "words": ({"README": b"vectors", "wiki.vec": b"2 2\na 1 2\nb 1 2\n"}, "wiki.vec"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_without_weights_names_what_is_to_be_measured(tmp_path, layout):
    files, inner = LAYOUTS[layout]
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"contains no .*; measure {re.escape(str(tmp_path / inner))}$"):
        load_model(str(tmp_path))
    assert load_model(str(tmp_path / inner)).embeddings


def test_zip_files_of_torch_and_of_texts_are_told_apart(tmp_path):
    way_out = "unpack it, and measure one of"
    files = {"archive/data.pkl": "a program that runs", "glove.6B.50d.txt": way_out, "vectors.bin": way_out, "x.npz": way_out}
    for name, reason in files.items():
        with zipfile.ZipFile(tmp_path / "file.zip", "w") as packed:
            packed.writestr(name, b"the 1 2\n")
        with pytest.raises(UserError, match=reason):
            load_model(str(tmp_path / "file.zip"))
