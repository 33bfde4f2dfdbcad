"""Files of CTranslate2, Marian and llama.cpp, zipped folders, vocabularies beside arrays, and estimated frequencies."""

import json
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from safetensors.numpy import save_file
from tiny.measured import measured, train_sentencepiece, write_word_level

from raretokens.errors import UserError
from raretokens.measure.measurement import MeasureOptions, measure_model
from raretokens.measure.model import load_model
from raretokens.measure.texts import TextPaths

RANDOM = np.random.default_rng(0)
ROWS, WIDTH = 40, 6
TABLE = RANDOM.normal(size=(ROWS, WIDTH)).astype(np.float32)
TOKENS = ["<s>", "</s>", "<unk>", *(f"w{place}" for place in range(ROWS - 3))]


def ctranslate2_folder(folder: Path, quantization: str | None, is_tied: bool = True) -> Path:
    """Let CTranslate2 write a translation model without layers. Its embeddings are TABLE, and 2 TABLE if untied."""
    specs = pytest.importorskip("ctranslate2.specs")
    spec = specs.TransformerSpec.from_config(0, 2)
    for part in (spec.encoder.embeddings[0], spec.decoder.embeddings, spec.decoder.projection):
        part.weight = TABLE * (1 if is_tied or part is not spec.decoder.projection else 2)
    for part in (spec.encoder, spec.decoder):
        part.layer_norm.gamma, part.layer_norm.beta = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
        part.position_encodings.encodings = np.ones((9, WIDTH), np.float32)
    spec.register_source_vocabulary(TOKENS)
    spec.register_target_vocabulary(TOKENS)
    spec.validate()
    spec.optimize(quantization)
    folder.mkdir()
    spec.save(str(folder))
    return folder


def marian(path: Path, tensors: dict[str, tuple[int, tuple[int, ...], bytes]]) -> None:
    """Write Marian's binary form. `tensors`: type, shape and bytes by name."""
    names = [name.encode() + b"\0" for name in tensors]
    content = struct.pack("<2Q", 1, len(tensors))
    for name, (dtype, shape, data) in zip(names, tensors.values(), strict=True):
        content += struct.pack("<4Q", len(name), dtype, len(shape), len(data))
    content += b"".join(names) + b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, shape, _ in tensors.values())
    padding = -(len(content) + 8) % 256
    content += struct.pack("<Q", padding) + bytes(padding)
    path.write_bytes(content + b"".join(data for *_, data in tensors.values()))


def quantised(scale: float) -> bytes:
    """TABLE as Marian's int8: the integers, the scale, and bytes up to a multiple of 256."""
    data = np.rint(TABLE * scale).astype(np.int8).tobytes() + struct.pack("<f", scale)
    return data + bytes(-len(data) % 256)


def read(path: Path, **options) -> dict[str, np.ndarray]:
    model = load_model(str(path), **options)
    return {role: stored.read(np.arange(stored.shape[0])) for role, stored in model.embeddings.items()}


@pytest.mark.parametrize("quantization", [None, "float16", "bfloat16"])
def test_tables_of_ctranslate2_are_those_that_its_library_wrote(tmp_path, quantization):
    model = load_model(str(ctranslate2_folder(tmp_path / "model", quantization)))
    (found,) = model.embeddings.values()
    assert [*model.embeddings] == ["input and output (tied)"] and model.has_output_bias is False
    assert model.row_names == TOKENS and model.special_ids == [0, None, 1, 2]
    exact = {None: 0, "float16": 1e-3, "bfloat16": 1e-2}[quantization]
    rows = found.read(np.arange(ROWS))
    assert np.abs(rows - TABLE).max() <= exact * np.abs(TABLE).max()
    (one,) = measure_model(model, MeasureOptions(), print)
    assert one.metrics["mean_cosine"][0] == pytest.approx(mean_cosine(rows), rel=1e-5)


def test_int8_of_ctranslate2_is_divided_by_the_scales_of_its_rows(tmp_path):
    folder = ctranslate2_folder(tmp_path / "model", "int8")
    model = load_model(str(folder))
    (found,) = model.embeddings.values()
    error = np.abs(found.read(np.arange(ROWS)) - TABLE)
    assert (error <= np.abs(TABLE).max(axis=1, keepdims=True) / 127 * 0.501).all() and error.max() > 0
    assert found.form == "int8 with one scale per row"
    data = bytearray((folder / "model.bin").read_bytes())
    start = data.index(b"weight_scale\0") + len(b"weight_scale\0") + 1 + 4 + 1 + 4  # after rank, shape, type and length
    data[start : start + 4] = bytes(4)
    (folder / "model.bin").write_bytes(data)
    with pytest.raises(UserError, match="weight_scale: scales should be positive"):
        load_model(str(folder))


def mean_cosine(rows: np.ndarray) -> float:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return float((unit.sum(0) @ unit.sum(0) - len(rows)) / len(rows) ** 2)


def test_untied_tables_of_ctranslate2_have_their_roles(tmp_path):
    found = read(ctranslate2_folder(tmp_path / "model", None, is_tied=False) / "model.bin")
    assert [*found] == ["input", "output"]
    assert np.allclose(found["output"], 2 * found["input"], rtol=1e-5)


def test_the_scale_behind_a_table_of_marian_turns_it_into_floats(tmp_path):
    path, bias = tmp_path / "model.bin", (0x0404, (1, ROWS), bytes(4 * ROWS))
    marian(path, {"Wemb": (0x4101, TABLE.shape, quantised(40.0)), "decoder_ff_logit_out_b": bias})
    model = load_model(str(tmp_path))
    assert [*model.embeddings] == ["input and output (tied)"] and model.has_output_bias
    (found,) = read(path).values()
    assert np.abs(found - TABLE).max() <= 0.5 / 40 + 1e-6
    (one,) = measure_model(model, MeasureOptions(), print)
    assert one.facts["dtype"] == "int8 with one scale of 40"
    assert all(how.endswith("|dequantised:int8-over-40") for _, how in one.metrics.values())
    names = ("encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt")
    marian(path, {name: (0x0404, TABLE.shape, (TABLE * factor).tobytes()) for factor, name in enumerate(names, start=1)})
    assert {role: float(rows[0, 0] / TABLE[0, 0]) for role, rows in read(path).items()} == {
        "encoder input": 1, "decoder input": 2, "output": 3
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
@pytest.mark.parametrize("is_tied", [True, False])
def test_tables_of_gguf_are_those_that_its_library_wrote(tmp_path, kind, is_tied, monkeypatch):
    gguf = pytest.importorskip("gguf")
    table = np.tile(TABLE, (1, 16))[:, :64]  # Q8_0 has blocks of 32 numbers
    writer, dtype = gguf.GGUFWriter(tmp_path / "model.gguf", "llama"), gguf.GGMLQuantizationType[kind]
    for number, name in enumerate(["token_embd.weight", *([] if is_tied else ["output.weight"])], start=1):
        writer.add_tensor(name, gguf.quantize(number * table, dtype), raw_dtype=dtype)
    writer.add_token_list(TOKENS)
    writer.add_bos_token_id(5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for path in (tmp_path, tmp_path / "model.gguf"):
        assert np.allclose(read(path)["input and output (tied)" if is_tied else "input"], table, atol=0.02)
    assert is_tied or np.allclose(read(path)["output"], 2 * table, atol=0.04)
    model = load_model(str(path))
    assert model.row_names == TOKENS and model.special_ids == [5, None, 1, 2]
    one = measure_model(model, MeasureOptions(), print)[0]
    assert one.facts["dtype"] == {"F16": "float16", "Q8_0": "Q8_0"}[kind]
    assert all(how.endswith("|dequantised:Q8_0") == (kind == "Q8_0") for _, how in one.metrics.values())
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(UserError, match=r"model\.gguf"):
        load_model(str(path))
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UserError, match="needs gguf: pip install gguf$"):
        load_model(str(path))


def test_a_folder_of_several_models_is_refused(tmp_path):
    for name in ("first.bin", "second.bin"):
        marian(tmp_path / name, {"Wemb": (0x0404, TABLE.shape, TABLE.tobytes())})
    with pytest.raises(UserError, match=r"which of first\.bin, second\.bin is the model"):
        load_model(str(tmp_path))


def write_spm(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    (tmp_path / "text").write_text("a few words and some other words for a model\n" * 20)
    train_sentencepiece(tmp_path / "vocab", tmp_path / "text", ROWS, bos_id=-1, eos_id=0, unk_id=1)
    (tmp_path / "vocab.model").rename(tmp_path / "vocab.spm")


def test_the_tokens_of_marian_are_those_of_its_sentencepiece_model(tmp_path, monkeypatch):
    write_spm(tmp_path)
    marian(tmp_path / "model.bin", {"Wemb": (0x4101, TABLE.shape, quantised(40.0))})
    model = load_model(str(tmp_path))
    assert model.special_ids == [None, None, 0, 1] and model.tokens[0] == "</s>" and model.tokenizer.encode(["words"])
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    assert "tokenizer left out: the tokenizer needs sentencepiece: pip install sentencepiece" in load_model(str(tmp_path)).notes


@pytest.mark.parametrize("kind", ["word-piece", "sentencepiece"])
def test_rows_that_only_the_vocabulary_file_names_can_be_candidates(tmp_path, kind):
    """Engines pad vocabularies: the padding has rows, which are copies here, but the tokenizer does not know its tokens."""
    if kind == "word-piece":
        tokens = ["<s>", "</s>", "<unk>", *(f"w{place}" for place in range(297))]
        model = tokenizers.models.WordPiece({token: row for row, token in enumerate(tokens)}, unk_token="<unk>")
        tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    else:
        write_spm(tmp_path)
        tokens = [f"w{place}" for place in range(300)]
    padding = [f"<extra_id_{place}>" if kind == "word-piece" else "<extra_id>" for place in range(8)]
    table = RANDOM.normal(size=(308, 12)).astype(np.float32)
    table[300:] = 5
    (tmp_path / "vocabulary.json").write_text(json.dumps([*tokens, *padding]))
    marian(tmp_path / "model.bin", {"Wemb": (0x0404, table.shape, table.tobytes())})
    model = load_model(str(tmp_path))
    assert model.tokenizer is not None
    (one,) = measure_model(model, MeasureOptions(), print)
    found = {candidate["id"]: candidate for candidate in one.candidates}
    assert {*range(300, 308)} <= {*found} and not any("left out" in note for note in one.notes)
    assert {(found[row]["token"], found[row]["explanation"]) for row in range(300, 308)} == {(t, "reserved") for t in padding}


@pytest.mark.parametrize("kind", ["ctranslate2", "marian"])
def test_a_file_that_ends_or_errs_anywhere_costs_one_line(tmp_path, kind):
    path = tmp_path / "model.bin"
    if kind == "ctranslate2":
        path = ctranslate2_folder(tmp_path / "ct2", None) / "model.bin"
    else:
        marian(path, {"x": (0x0404, (2,), bytes(8)), "Wemb": (0x4101, TABLE.shape, quantised(40.0))})
    whole = path.read_bytes()
    for length in (*range(99), *range(99, len(whole) - 300, 7)):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError) as error:
            load_model(str(path))
        assert "\n" not in str(error.value)
    for place in range(0, len(whole), 9):  # a damaged file is read as another one, or refused
        path.write_bytes(whole[:place] + bytes([whole[place] ^ RANDOM.integers(1, 256)]) + whole[place + 1 :])
        try:
            load_model(str(path))
        except UserError as error:
            assert "\n" not in str(error)


def plain_folder(folder: Path) -> Path:
    """Write a folder with an embedding of a model that transformers does not know, without a tokenizer."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "none", "eos_token_id": 1}))
    save_file({"embeddings.weight": TABLE}, folder / "model.safetensors")
    return folder


def test_a_zipped_folder_is_the_folder(tmp_path):
    folder = plain_folder(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "named.zip", "w") as packed:
        packed.writestr("../outside", b"")
        for path in folder.iterdir():
            packed.write(path, f"inner/{path.name}")
    assert np.array_equal(read(tmp_path / "named.zip")["input"], TABLE)
    assert load_model(str(tmp_path / "named.zip")).name == "named"
    assert not (tmp_path.parent / "outside").exists()
    whole = (tmp_path / "named.zip").read_bytes()
    for length in range(1, len(whole), 19):
        (tmp_path / "cut.zip").write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"cut\.zip"):
            load_model(str(tmp_path / "cut.zip"))


def zipped(folder: Path, inner: str = "inner") -> Path:
    """Zip a folder, as a folder `inner` of the archive."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as packed:
        for file in folder.iterdir():
            packed.write(file, Path(inner, file.name))
    return path


def test_an_error_in_a_zipped_folder_names_the_zip_file(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content, reason in (
        ("config.json", b"{}", r"^\S*model\.zip/inner: contains no \*\.safetensors file$"),
        ("pytorch_model.bin", b"\x80", r"^\S*model\.zip/inner/pytorch_model\.bin: not read: such a file is a program"),
        ("model.bin", (6).to_bytes(4, "little") + b"\x10\0TransformerSpec\0", r"^\S*model\.zip/inner/model\.bin: is cut off"),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(UserError, match=reason) as error:
            load_model(str(zipped(folder)))
        assert "\n" not in str(error.value)


def test_a_vocabulary_names_the_rows_of_an_array(tmp_path):
    np.save(tmp_path / "rows.npy", np.asfortranarray(TABLE))
    ids = {token: row for row, token in reversed([*enumerate(TOKENS)])}
    texts = {"words.txt": "\n".join(TOKENS) + "\n", "list.json": json.dumps(TOKENS), "ids.json": json.dumps(ids)}
    for name, content in texts.items():
        (tmp_path / name).write_text(content)
        assert load_model(str(tmp_path / "rows.npy"), tmp_path / name).row_names == TOKENS
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"id": range(ROWS), "word": TOKENS}), tmp_path / "words.parquet")
    assert load_model(str(tmp_path / "rows.npy"), tmp_path / "words.parquet").row_names == TOKENS
    damaged = {"few.txt": b"a\nb", "none.json": b"3", "cut.json": b'["a', "latin.txt": b"\xe9", "x.parquet": b"PAR1"}
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=name):
            load_model(str(tmp_path / "rows.npy"), tmp_path / name)


def test_a_vocabulary_names_the_rows_of_an_engine_s_model_as_one_beside_the_weights(tmp_path):
    folder, words = tmp_path / "model", tmp_path / "words.txt"
    folder.mkdir()
    marian(folder / "model.bin", {"Wemb": (0x4101, TABLE.shape, quantised(40.0))})
    words.write_text("\n".join(TOKENS))
    assert "rows have no tokens (--vocabulary names them)" in "".join(load_model(str(folder)).notes)
    found = [load_model(str(path), words) for path in (folder, folder / "model.bin")]
    (folder / "vocabulary.txt").write_bytes(words.read_bytes())
    specials = load_model(str(folder)).special_ids
    assert all((model.row_names, model.special_ids, model.notes) == (TOKENS, specials, []) for model in found)


def test_a_vocabulary_names_the_rows_of_a_folder_without_a_tokenizer(tmp_path):
    folder, words = tmp_path / "model", tmp_path / "words.txt"
    plain_folder(folder)
    words.write_text("\n".join(TOKENS))
    (folder / "tokenizer.json").write_text("{not json")
    for _ in range(2):  # with a tokenizer that cannot be read, and without one
        for path in (folder, zipped(folder)):
            model = load_model(str(path), words)
            assert model.row_names == TOKENS and model.special_ids[2] == 1
            assert not any("--vocabulary" in note for note in model.notes)
        (folder / "tokenizer.json").unlink(missing_ok=True)
    words.write_text("a\nb\n")
    with pytest.raises(UserError, match=r"words\.txt: 2 tokens, but the matrix has 40 rows"):
        load_model(str(folder), words)


@pytest.mark.parametrize("kind", ["engine", "tokenizer", "word vectors", "words beside an array"])
def test_a_vocabulary_that_is_not_used_is_noted(tmp_path, kind):
    path = tmp_path / "model"
    if kind == "engine":
        ctranslate2_folder(path, None)
    elif kind == "tokenizer":
        plain_folder(path)
        write_word_level(path, TOKENS, unk_token="<unk>")
    elif kind == "word vectors":
        path.write_text("\n".join(" ".join([token, *map(str, row)]) for token, row in zip(TOKENS, TABLE, strict=True)))
    else:
        path = tmp_path / "model.npz"
        np.savez(path, vectors=TABLE, words=np.array(TOKENS))
    (tmp_path / "words.txt").write_text("\n".join(reversed(TOKENS)))
    model = load_model(str(path), tmp_path / "words.txt")
    assert [*map(model.tokens.get, range(ROWS))] == TOKENS
    assert "words.txt is ignored: the rows have tokens already" in "".join(model.notes)


def test_estimated_frequencies_are_named_as_an_estimate(tmp_path, monkeypatch):
    """A stand-in for wordfreq, whose words have known frequencies."""
    frequencies = {"the": 1e-1, "of": 1e-2, "zebra": 1e-3}
    monkeypatch.setattr("raretokens.measure.texts._read_frequencies", lambda _: (frequencies, "0"))
    np.save(tmp_path / "rows.npy", TABLE)
    names = ["zebra", "Of", *(f"x{place}" for place in range(ROWS - 3)), "the"]
    (tmp_path / "words.txt").write_text("\n".join(names))
    (one,) = measure_model(load_model(str(tmp_path / "rows.npy"), tmp_path / "words.txt"), MeasureOptions(languages="en"), print)
    assert one.facts["token types that occur"] == 3 and "estimate" in one.facts["frequencies"]
    assert all(how.endswith("|frequencies:estimate-wordfreq-0-en") for _, how in one.metrics.values())
    assert any("estimate" in note for note in one.notes)
    assert [*np.argsort(one.row_groups, kind="stable")[:3]] == [0, 1, 2]
    assert one.row_groups[[0, 1, ROWS - 1]].tolist() == [0, 0, 0]
    (tmp_path / "words.txt").write_text("\n".join(f"Ġ{name}" for name in names))
    (one,) = measure_model(load_model(str(tmp_path / "rows.npy"), tmp_path / "words.txt"), MeasureOptions(languages="en"), print)
    assert "frequencies left out: rows are subword tokens" in " ".join(one.notes)
    text = tmp_path / "words.txt"  # which a matrix without a tokenizer cannot count
    for options in (MeasureOptions(is_sorted=True), MeasureOptions(TextPaths(text, text), is_sorted=True)):
        (proxy,) = measured(tmp_path / "rows.npy", options)
        assert "only a proxy" in " ".join(proxy.notes)
        assert all(how.endswith("order-of-ids") for _, how in proxy.metrics.values())
