"""Generated damage: whatever is wrong with a part of a model folder, the geometry is given, and a line says what is left out."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

os.environ["HF_HUB_OFFLINE"] = "1"
pytest.importorskip("transformers")

from tiny import measured as tiny  # noqa: E402
from tiny.measured import notes  # noqa: E402
from transformers import LlamaForCausalLM  # noqa: E402

from raretokens.measure import page, streaming  # noqa: E402
from raretokens.measure.measurement import Measurement, MeasureOptions  # noqa: E402
from raretokens.measure.model import load_model  # noqa: E402
from raretokens.measure.texts import TextPaths, read_ids  # noqa: E402

RANDOM = np.random.default_rng(0)
ROWS = 40
JUNK = (None, -1, ROWS, 10**12, 1.5, True, "x", "", [], [0, 1], {}, {"a": None})
LEFT_OUT = "perplexity, Uniq and continuations left out: "


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An intact model with a tokenizer, and a text."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model")
    tiny.write_llama(path, ROWS, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    tiny.write_word_level(path, [f"w{place}" for place in range(ROWS)], unk_token="w3")
    words = RANDOM.zipf(1.3, 900) % ROWS
    (path / "text.txt").write_text(" ".join(f"w{word}" for word in words))
    return path


def measured(folder: Path) -> list[Measurement]:
    text = folder / "text.txt"
    return tiny.measured(folder, MeasureOptions(TextPaths(text, text)))


def geometry(found: list[Measurement]) -> dict[str, float]:
    """What no damage beside the matrices may move: the singular values, over all rows but <pad>."""
    return {one.embedding: one.metrics["singular_value"][0]["2"] for one in found}


def test_an_intact_folder_has_everything_and_no_note_but_that_on_its_short_rows(folder):
    found = measured(folder)
    assert "ppl" in found[-1].metrics and all("depends on their length" in note for one in found for note in one.notes)


def test_a_short_text_and_line_ends_of_windows_are_noted(folder, tmp_path):
    text = tmp_path / "short.txt"
    text.write_bytes(b"w4 w5 w4\r\nw6\r\n")
    found = tiny.measured(folder, MeasureOptions(TextPaths(text, text)))
    assert "short.txt: lines end in \\r\\n" in notes(found)
    medium = round(0.8 * ROWS)  # of these, four are special tokens, and three occur
    assert f"{medium - 4 - 3} of the frequent and medium types do not occur in the text" in notes(found)


@pytest.mark.parametrize("start", ["first", "every"])
@pytest.mark.parametrize(("window", "context"), [(16, 8), (16, 0), (7, 3)])
def test_the_start_token_stands_where_the_signature_says(folder, start, window, context):
    text, own = folder / "text.txt", load_model(str(folder))
    reading = {"window": window, "context": context, "block": window, "start": start}
    one = tiny.measured(folder, MeasureOptions(TextPaths(text, text), reading=reading))[-1]
    ids, model = read_ids(own.tokenizer, text, None, None).tolist(), LlamaForCausalLM.from_pretrained(folder).eval()
    nll = []
    for begin in range(0, len(ids), window - context):
        end, first = begin + window - context, max(begin - context, 0)
        given = [own.begin if first == 0 or start == "every" else ids[first - 1], *ids[first : end - 1]]
        with torch.no_grad():
            logp = model(torch.tensor([given])).logits[0].log_softmax(1)
        nll += [-float(logp[place - first, ids[place]]) for place in range(begin, min(end, len(ids)))]
    value, signature = one.metrics["ppl"]
    assert len(nll) == len(ids) and value["total"] == pytest.approx(np.exp(np.mean(nll)), rel=1e-4)
    assert f"|start-token:{start}" in signature and f"|start-token:{start}" in one.metrics["uniq"][1]


def test_a_damaged_setting_costs_at_most_the_parts_that_need_it(folder, tmp_path):
    settings = json.loads((folder / "config.json").read_text())
    tried = [(key, JUNK[RANDOM.integers(len(JUNK))]) for key in [*settings, "text_config", "raretokens"]]
    for number, (key, value) in enumerate([*tried, ("architectures", [0, 1])]):
        one = shutil.copytree(folder, tmp_path / str(number))
        (one / "config.json").write_text(json.dumps(settings | {key: value}))
        found = measured(one)
        assert all({"isotropy", "norm_by_frequency", "singular_value"} <= set(part.metrics) for part in found), (key, value)
        assert [part.embedding for part in found] in (["input", "output"], ["input and output (tied)"]), (key, value)
        assert "ppl" in found[-1].metrics or LEFT_OUT in notes(found), (key, value)


def files_of(config: dict) -> dict[str, bytes]:
    return {
        "config.json": json.dumps([config]).encode(),
        "config.json ": b"{not json",
        "tokenizer_config.json": b"[]",
        "generation_config.json": b"[1",
        "tokenizer.json": b'{"model": 1}',
        "special_tokens_map.json": b"\xff",
        "added_tokens.json": b'{"new": 39}',
        "text.txt": "café\n".encode("utf-16"),
        "text.txt ": b"\xe9t\xe9\n" * 9,
        "text.txt  ": b"",
    }


SAID = {"text.txt": "is UTF-16; convert it first", "text.txt ": "line 1 is not UTF-8"}


def test_a_damaged_file_costs_at_most_the_parts_that_need_it(folder, tmp_path):
    right = geometry(measured(folder))
    for name, content in files_of(json.loads((folder / "config.json").read_text())).items():
        one = shutil.copytree(folder, tmp_path / name.replace(" ", "_"))
        (one / name.strip()).write_bytes(content)
        found = measured(one)
        assert geometry(found).keys() == right.keys() and all("isotropy" in part.metrics for part in found), name
        assert "ppl" in found[-1].metrics or "left out: " in notes(found), name
        assert all(SAID.get(name, "") in "".join(part.notes) for part in found), name


def test_stale_sizes_and_special_ids_are_noted(folder, tmp_path):
    settings = json.loads((folder / "config.json").read_text())
    for number, (change, note, has_perplexity) in enumerate([
        ({"vocab_size": ROWS - 1}, f"config.json makes the input embedding {ROWS - 1} x 8, but the file has {ROWS} x 8", False),
        ({"vocab_size": ROWS + 1}, f"config.json makes the input embedding {ROWS + 1} x 8, but the file has {ROWS} x 8", False),
        ({"bos_token_id": ROWS}, f"bos_token_id {ROWS} is ignored: the embedding has {ROWS} rows", True),
        ({"pad_token_id": ROWS}, f"pad_token_id {ROWS} is ignored: the embedding has {ROWS} rows", False),
        ({"pad_token_id": -1}, "", True),
    ]):  # fmt: skip
        one = shutil.copytree(folder, tmp_path / str(number))
        (one / "config.json").write_text(json.dumps(settings | change))
        found = measured(one)
        assert note in notes(found) and ("ppl" in found[-1].metrics) == has_perplexity, change


@pytest.mark.parametrize("is_streamed", [False, True])
def test_rows_with_nan_or_inf_are_left_out_and_the_others_measured(folder, tmp_path, is_streamed, monkeypatch):
    monkeypatch.setattr(streaming, "MAX_WORK", 0 if is_streamed else streaming.MAX_WORK)
    table = RANDOM.normal(0.3, 1, (200, 8)).astype(np.float32)
    save_file({"table": table[20:]}, tmp_path / "kept.safetensors")
    (right,) = tiny.measured(tmp_path / "kept.safetensors")
    table[:10, 3], table[10:20, 1] = np.nan, -np.inf
    order = RANDOM.permutation(200)
    save_file({"table": table[order]}, tmp_path / "damaged.safetensors")
    (one,) = tiny.measured(tmp_path / "damaged.safetensors")
    assert one.facts["measured rows"] == 180 and "rows with NaN or Inf are left out: 20 (ids " in notes([one])
    for metric in ("isotropy", "mean_cosine", "effective_rank", "iso_score"):
        assert one.metrics[metric][0] == pytest.approx(right.metrics[metric][0], rel=1e-4), metric


@pytest.mark.parametrize("table", [
    np.zeros((50, 8)), np.ones((50, 8)), RANDOM.normal(size=(1, 8)), RANDOM.normal(size=(2, 8)), RANDOM.normal(size=(50, 1)),
    np.full((9, 4), np.nan), RANDOM.normal(size=(50, 8)) * 1e30,
], ids=["zeros", "ones", "one row", "two rows", "width 1", "all NaN", "large"])  # fmt: skip
def test_a_degenerate_matrix_has_the_metrics_that_exist_and_json_that_others_read(tmp_path, table):
    save_file({"table": table.astype(np.float32)}, tmp_path / "table.safetensors")
    found = tiny.measured(tmp_path / "table.safetensors", MeasureOptions(is_sorted=True))
    page.write(found, tmp_path / "page")

    def refuse(constant):
        raise AssertionError(constant)

    (tree,) = json.loads((tmp_path / "page/measure.json").read_text(), parse_constant=refuse)
    assert tree["metrics"] or tree["notes"]
    assert all(note in (tmp_path / "page/index.html").read_text() for note in tree["notes"] if "'" not in note)


def test_missing_shards_cost_only_their_tensors(folder, tmp_path):
    tensors = load_file(folder / "model.safetensors")
    left = {"lm_head.weight": ["input"], "model.embed_tokens.weight": ["output"], "model.norm.weight": ["input", "output"]}
    for missing, roles in left.items():
        one = shutil.copytree(folder, tmp_path / missing)
        (one / "model.safetensors").unlink()
        index = {name: f"model-{place}.safetensors" for place, name in enumerate(tensors)}
        for name, file in index.items():
            if name != missing:
                save_file({name: tensors[name]}, one / file, {"format": "pt"})
        (one / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
        found = measured(one)
        assert [part.embedding for part in found] == roles
        assert f"the index names {index[missing]}, but no such file is in the folder" in notes(found) and LEFT_OUT in notes(found)


def test_shards_without_a_readable_index_are_all_read(folder, tmp_path):
    one, tensors = shutil.copytree(folder, tmp_path / "shards"), load_file(folder / "model.safetensors")
    (one / "model.safetensors").unlink()
    for place, name in enumerate(tensors, start=1):
        save_file({name: tensors[name]}, one / f"model-{place:05}-of-{len(tensors):05}.safetensors", {"format": "pt"})
    (one / "model.safetensors.index.json").write_text("{broken")
    found = measured(one)
    assert geometry(found) == geometry(measured(folder)) and "all files of the model are read" in notes(found)


def test_of_a_quantised_output_embedding_it_is_said(folder, tmp_path):
    one = shutil.copytree(folder, tmp_path / "gptq")
    tensors = load_file(one / "model.safetensors")
    save_file(tensors | {"lm_head.weight": np.zeros((ROWS, 8), np.int8)}, one / "model.safetensors", {"format": "pt"})
    found = notes(measured(one))
    assert "output embedding left out" in found and "stored as I8" in found
