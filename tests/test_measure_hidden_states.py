"""Anisotropy of hidden states by layer: sums over a text that is read once, compared with all pairs of all states in float64."""

import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"

from tiny.measured import llama  # noqa: E402

from raretokens.measure import causal_predictions, hidden_states  # noqa: E402
from raretokens.measure.causal_predictions import Reading, load_causal_model, measure_text  # noqa: E402
from raretokens.measure.hidden_states import HiddenStates  # noqa: E402
from raretokens.measure.measurement import Measurement  # noqa: E402
from raretokens.measure.model import load_model  # noqa: E402
from raretokens.measure.notes import Notes  # noqa: E402
from raretokens.measure.output import metric_lines, summary  # noqa: E402
from raretokens.metrics.bootstrap import resample  # noqa: E402
from raretokens.metrics.rows import evenly  # noqa: E402
from raretokens.metrics.spectrum import iso_score  # noqa: E402
from raretokens.vocabulary import FILLER, FREQ  # noqa: E402

LENGTH, BLOCK, ROWS, BEGIN = 391, 32, 90, 1  # the last block is short
READING = Reading(window=32, context=24, block=BLOCK)


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def folder(request, tmp_path_factory) -> Path:
    hf = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if request.param == "gpt2":
        shape = {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 40}
        model = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=ROWS, bos_token_id=BEGIN, eos_token_id=2, **shape))
    else:
        shape = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16}
        model = llama(ROWS, **shape, bos_token_id=BEGIN, eos_token_id=2, max_position_embeddings=40)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.03, 0.3)
    path = tmp_path_factory.mktemp("models") / request.param
    model.save_pretrained(path)
    return path


def text() -> np.ndarray:
    return np.random.default_rng(1).integers(3, ROWS, LENGTH)


def measured(folder: Path, reading: Reading = READING) -> tuple[dict, dict]:
    """The value of each metric of hidden states, and replicates."""
    model = load_model(str(folder))
    causal, notes = load_causal_model(model), Notes()
    metrics, replicates = measure_text(model, causal, text(), np.full(ROWS, FREQ, np.int8), reading, notes)
    assert not notes
    return {path: value for path, (value, _) in metrics.items() if path.startswith("hidden.")}, replicates


def all_states(folder: Path, start: str) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """The states of each layer and of its first positions, from one forward pass of transformers per block, and the block."""
    hf = pytest.importorskip("transformers")
    model, ids = hf.AutoModelForCausalLM.from_pretrained(folder).eval(), [BEGIN, *text().tolist()]
    states, first, blocks = None, None, []
    for number, begin in enumerate(range(0, LENGTH, BLOCK)):
        row = ids[begin : min(begin + BLOCK, LENGTH)]
        row = [BEGIN, *row[1:]] if start == "every" else row
        with torch.no_grad():
            layers = model(input_ids=torch.tensor([row]), output_hidden_states=True).hidden_states
        states, first = states or [[] for _ in layers], first or [[] for _ in layers]
        for layer, one in enumerate(layers):
            states[layer].append(one[0, 1:].double().numpy())
            first[layer].append(one[0, :1].double().numpy())
        blocks += [number] * (len(row) - 1)
    return [np.concatenate(one) for one in states], [np.concatenate(one) for one in first], np.array(blocks)


def cosines(rows: np.ndarray) -> np.ndarray:
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return (units @ units.T)[~np.eye(len(rows), dtype=bool)]


def resampled_cosine(rows: np.ndarray, copies: np.ndarray) -> float:
    """The mean cosine over pairs of different positions, each as often as it has copies."""
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = np.outer(copies, copies) * ~np.eye(len(rows), dtype=bool)
    return ((units @ units.T) * pairs).sum() / pairs.sum()


@pytest.mark.parametrize(("start", "sample"), [("first", 1000), ("every", 50)])
def test_the_metrics_are_those_of_all_pairs_of_positions(folder, monkeypatch, start, sample):
    monkeypatch.setattr(hidden_states, "SAMPLE", sample)
    found, replicates = measured(folder, READING._replace(start=start))
    states, first, blocks = all_states(folder, start)
    assert list(found["hidden.mean_cosine"]) == ["0", "1", "2", "last"]
    chosen = evenly(np.arange(len(blocks)), sample)
    for layer, rows, sinks in zip(found["hidden.mean_cosine"], states, first, strict=True):
        centred = rows - rows.mean(0)
        variances = np.linalg.svd(centred, compute_uv=False) ** 2
        score, _ = iso_score(np.concatenate((np.zeros((2, rows.shape[1])), rows)), np.array([FILLER] * 2 + [FREQ] * len(rows)))
        expected = {
            "mean_cosine": cosines(rows).mean(),
            "centred_cosine": cosines(centred[chosen]).mean(),
            "iso_score": score["total"],
            "first_direction": variances[0] / variances.sum(),
            "norm": np.linalg.norm(rows, axis=1).mean(),
            "first_norm": np.linalg.norm(sinks, axis=1).mean(),
        }
        assert {name: found[f"hidden.{name}"][layer] for name in expected} == pytest.approx(expected, rel=1e-4, abs=1e-6)
        weights = resample(blocks[-1] + 1)
        for replicate in range(3):
            copies = np.bincount(weights[replicate], minlength=blocks[-1] + 1)[blocks].astype(float)
            expected = {
                "mean_cosine": resampled_cosine(rows, copies),
                "centred_cosine": resampled_cosine(centred[chosen], copies[chosen]),
                "norm": np.average(np.linalg.norm(rows, axis=1), weights=copies),
            }
            got = {name: replicates[f"hidden.{name}.{layer}"][replicate] for name in expected}
            assert got == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_the_text_is_read_in_batches_of_any_size(folder, monkeypatch):
    whole, _ = measured(folder)
    monkeypatch.setattr(causal_predictions, "MAX_LOGITS", 3 * BLOCK * ROWS)
    parts, _ = measured(folder)
    for path, values in whole.items():
        assert parts[path] == pytest.approx(values, rel=1e-5, abs=1e-7), path


def collect(states: torch.Tensor, block: int = 8, notes: Notes | None = None) -> HiddenStates:
    """Add states (positions x d) of a text with one layer, block by block."""
    starts = list(range(0, len(states), block))
    found = HiddenStates(len(states), block, starts, Notes() if notes is None else notes)
    for start in starts:
        one = torch.zeros(1, block, states.shape[1])
        one[0, : len(states[start : start + block])] = states[start : start + block]
        found.add([one])
    return found


def test_memory_does_not_depend_on_the_length_of_the_text():
    def held(length: int) -> int:
        sums = collect(torch.ones(length, 3)).layers[0]
        arrays = [value for value in vars(sums).values() if hasattr(value, "nbytes")]
        return sum(array.nbytes for array in arrays)

    assert held(20_000) == held(40_000) > 0


def test_no_state_is_kept():
    found = HiddenStates(64, 8, list(range(0, 64, 8)), Notes())
    given = [torch.randn(8, 8, 5) for _ in range(3)]
    kept = [weakref.ref(one.untyped_storage()) for one in given] + [weakref.ref(one) for one in given]
    found.add(given)
    del given
    gc.collect()
    assert found.layers and all(reference() is None for reference in kept)


def test_a_text_of_first_positions_alone_has_their_length_and_nothing_else():
    metrics, _ = collect(torch.ones(20, 4), block=1).metrics("")
    assert {path for path, (value, _) in metrics.items() if value["last"] is not None} == {"hidden.first_norm"}


def test_few_blocks_have_no_interval():
    _, replicates = collect(torch.randn(72, 4)).metrics("")
    assert not replicates and collect(torch.randn(80, 4)).metrics("")[1]


def test_layers_are_printed_as_a_table():
    metrics, _ = collect(torch.randn(100, 4)).metrics("")
    one = Measurement("x", "matrix", {"rows": 1, "width": 1, "dtype": "float32"}, metrics, np.zeros(1), None, Notes())
    *_, header, row = metric_lines([one])
    assert header.split()[:3] == ["layer", "mean", "cosine"]
    assert row.split()[:2] == ["last", f"{metrics['hidden.mean_cosine'][0]['last']:.4g}"]
    assert summary(one)[-1] == f"  hidden states: mean cosine {row.split()[1]} (layer last)"


def test_states_that_cannot_be_measured_are_noted():
    notes = Notes()
    states = HiddenStates(16, 8, [0, 8], notes)
    for _ in range(2):
        states.add(())
    assert states.metrics("") == ({}, {})
    assert notes == ["hidden states left out: the model gives none by position"]


def test_without_memory_for_variances_the_mean_cosine_remains(monkeypatch):
    monkeypatch.setattr(hidden_states, "MAX_SCATTER", 10)
    notes = Notes()
    metrics, _ = collect(torch.randn(200, 4), notes=notes).metrics("")
    assert metrics["hidden.iso_score"][0] == {"last": None} and metrics["hidden.mean_cosine"][0]["last"] is not None
    assert notes == ["IsoScore and first direction of hidden states left out: they need 0 GB"]
