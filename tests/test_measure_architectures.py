"""Generated models of transformers: the embeddings that are measured are those that transformers itself loads."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

os.environ["HF_HUB_OFFLINE"] = "1"
hf = pytest.importorskip("transformers")

from tiny.measured import remove_transformers  # noqa: E402

from raretokens.errors import UserError  # noqa: E402
from raretokens.measure.causal_predictions import continue_greedily, load_causal_model  # noqa: E402
from raretokens.measure.model import Model, load_model  # noqa: E402

RANDOM = np.random.default_rng(0)
BOTH = ("input", "output")


def shape(**further) -> dict:
    """Settings that most configurations share, of a random size."""
    heads, rows = int(RANDOM.integers(1, 3)), int(RANDOM.integers(60, 120))
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return {"vocab_size": rows, "hidden_size": 8 * heads, "num_hidden_layers": 1, "num_attention_heads": heads,
            "intermediate_size": 16, "max_position_embeddings": 40} | special | further  # fmt: skip


def seq2seq(**further) -> dict:
    sides = {f"{side}_{key}": value for side in ("encoder", "decoder")
             for key, value in {"layers": 1, "attention_heads": 2, "ffn_dim": 16}.items()}  # fmt: skip
    return {"vocab_size": int(RANDOM.integers(60, 120)), "d_model": 16, "max_position_embeddings": 40, "pad_token_id": 0,
            "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0} | sides | further  # fmt: skip


def t5(**further) -> dict:
    return {"vocab_size": 90, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2} | further


VISION = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "image_size": 8,
          "patch_size": 4}  # fmt: skip
XLM = {"vocab_size": 90, "emb_dim": 16, "n_layers": 1, "n_heads": 2}
GPT = {"vocab_size": 90, "n_embd": 16, "n_layer": 1, "n_head": 2, "bos_token_id": 1, "eos_token_id": 2}
ARCHITECTURES = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**shape())),
    "llama-tied": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**shape(tie_word_embeddings=True))),
    "llama-headless": lambda: hf.LlamaModel(hf.LlamaConfig(**shape())),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT)),
    "gpt-j": lambda: hf.GPTJForCausalLM(hf.GPTJConfig(**GPT, rotary_dim=4)),
    "gpt-neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**shape())),
    "phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**shape())),
    "opt": lambda: hf.OPTForCausalLM(hf.OPTConfig(**shape(ffn_dim=16, word_embed_proj_dim=6))),
    "bloom": lambda: hf.BloomForCausalLM(hf.BloomConfig(vocab_size=90, hidden_size=16, n_layer=1, n_head=2)),
    "mamba": lambda: hf.MambaForCausalLM(hf.MambaConfig(vocab_size=90, hidden_size=16, num_hidden_layers=1, state_size=4)),
    "rwkv": lambda: hf.RwkvForCausalLM(hf.RwkvConfig(vocab_size=90, hidden_size=16, num_hidden_layers=2)),
    "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**shape(num_local_experts=2, num_key_value_heads=1))),
    "gemma3": lambda: hf.Gemma3ForConditionalGeneration(hf.Gemma3Config(
        text_config=shape(head_dim=8, num_key_value_heads=1), vision_config=VISION, mm_tokens_per_image=4)),
    "bert-encoder": lambda: hf.BertModel(hf.BertConfig(**shape())),
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**shape())),
    "bert-lm": lambda: hf.BertLMHeadModel(hf.BertConfig(**shape())),
    "roberta": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**shape())),
    "distilbert": lambda: hf.DistilBertForMaskedLM(hf.DistilBertConfig(
        vocab_size=90, dim=16, n_layers=1, n_heads=2, hidden_dim=16)),
    "modernbert": lambda: hf.ModernBertForMaskedLM(hf.ModernBertConfig(**shape(cls_token_id=1, sep_token_id=2))),
    "electra": lambda: hf.ElectraForMaskedLM(hf.ElectraConfig(**shape(embedding_size=6))),
    "albert": lambda: hf.AlbertForMaskedLM(hf.AlbertConfig(**shape(embedding_size=6))),
    "xlnet": lambda: hf.XLNetLMHeadModel(hf.XLNetConfig(vocab_size=90, d_model=16, n_layer=1, n_head=2, d_inner=16)),
    "xlm": lambda: hf.XLMWithLMHeadModel(hf.XLMConfig(**XLM)),
    "flaubert": lambda: hf.FlaubertWithLMHeadModel(hf.FlaubertConfig(**XLM)),
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**t5())),
    "t5-untied": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**t5(tie_word_embeddings=False))),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**seq2seq())),
    "marian-two-vocabularies": lambda: hf.MarianMTModel(hf.MarianConfig(**seq2seq(
        decoder_vocab_size=70, share_encoder_decoder_embeddings=False))),
    "whisper": lambda: hf.WhisperForConditionalGeneration(hf.WhisperConfig(**seq2seq(num_mel_bins=8))),
    "clip-text": lambda: hf.CLIPTextModel(hf.CLIPTextConfig(**shape())),
}  # fmt: skip


def embeddings_of(model) -> dict[str, torch.Tensor]:
    """What transformers has once it has loaded a model: matrices by role, the tied ones together."""
    given, taken = model.get_input_embeddings().weight, model.get_output_embeddings()
    parts = {"input": given}
    if model.config.is_encoder_decoder:
        decoder = model.get_decoder().get_input_embeddings().weight
        if decoder is not given:
            parts = {"encoder input": given, "decoder input": decoder}
    if taken is None:
        return parts
    tied = next((role for role, weight in parts.items() if weight is taken.weight), None)
    if tied is None:
        return parts | {"output": taken.weight}
    return {role if role != tied else f"{role} and output (tied)": weight for role, weight in parts.items()}


def has_bias(model) -> bool | None:
    head = model.get_output_embeddings()
    if head is None:
        return None
    return getattr(head, "bias", None) is not None or getattr(model, "final_logits_bias", None) is not None


def check(folder: Path, architecture: type) -> Model:
    """The measured matrices are number for number those that transformers loads from the folder."""
    right, found = architecture.from_pretrained(folder), load_model(str(folder))
    expected = embeddings_of(right)
    assert list(found.embeddings) == list(expected)
    for role, weight in expected.items():
        stored = found.embeddings[role]
        assert np.array_equal(stored.read(np.arange(stored.shape[0])), weight.detach().float().numpy()), role
    assert found.has_output_bias == has_bias(right)
    return found


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """A folder for each architecture; input and output embedding differ, where they are not tied."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    for name, build in ARCHITECTURES.items():
        model = build()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0.05, 0.3)
        model.save_pretrained(folder / name)
    return folder


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_embeddings_are_those_that_transformers_loads(models, name):
    settings = json.loads((models / name / "config.json").read_text())
    found = check(models / name, getattr(hf, settings["architectures"][0]))
    assert [note for note in found.notes if "assumed" in note or "not measured" in note] == []


@pytest.mark.parametrize("name", ["llama-tied", "gpt2", "gemma3", "t5"])
def test_an_output_embedding_in_the_file_of_a_tied_model_is_measured_as_transformers_loads_it(models, name, tmp_path):
    shutil.copytree(models / name, tmp_path / name)
    architecture = getattr(hf, json.loads((tmp_path / name / "config.json").read_text())["architectures"][0])
    tensors = load_file(tmp_path / name / "model.safetensors")
    names = ("embed_tokens.weight", "wte.weight", "shared.weight")
    given = next(tensor for key, tensor in tensors.items() if key.endswith(names))
    for output, roles in ((given.clone(), 1), (0.1 * given + 0.5, 2)):  # the same again, and one that was trained apart
        save_file(tensors | {"lm_head.weight": output}, tmp_path / name / "model.safetensors", {"format": "pt"})
        found = check(tmp_path / name, architecture)
        assert len(found.embeddings) == roles
        assert ("config.json ties the embeddings, but" in "".join(found.notes)) == (roles == 2)


@pytest.mark.parametrize("name", ["llama", "gpt-neox", "phi"])
def test_without_its_output_embedding_a_model_has_geometry_and_no_perplexity(models, name, tmp_path):
    shutil.copytree(models / name, tmp_path / name)
    tensors = load_file(tmp_path / name / "model.safetensors")
    kept = {key: tensor for key, tensor in tensors.items() if not key.startswith(("lm_head", "embed_out"))}
    save_file(kept, tmp_path / name / "model.safetensors", {"format": "pt"})
    found = load_model(str(tmp_path / name))
    assert list(found.embeddings) == ["input"] and "output embedding left out: the files have no" in "".join(found.notes)
    with pytest.raises(UserError, match="which transformers would set at random"):
        load_causal_model(found)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_only_a_model_that_cannot_look_ahead_has_perplexity(models, name):
    """The reference is transformers' own model: the logits of a prefix alone are those of the prefix in a longer text."""
    settings = json.loads((models / name / "config.json").read_text())
    right = getattr(hf, settings["architectures"][0]).from_pretrained(models / name)
    is_causal = False
    if not right.config.is_encoder_decoder and right.get_output_embeddings() is not None:
        ids = torch.from_numpy(RANDOM.integers(3, 60, (1, 30)))
        with torch.no_grad():
            whole, alone = (right(input_ids=part).logits[0, :9] for part in (ids, ids[:, :9]))
        is_causal = bool((whole - alone).abs().max() < 1e-4 * whole.abs().max())
    try:
        load_causal_model(load_model(str(models / name)))
        assert is_causal
    except UserError as error:
        assert not is_causal, error


def test_continuations_are_greedy_whatever_the_generation_settings_of_the_folder_say(models, tmp_path):
    made = []
    for settings in ({}, {"do_sample": True, "temperature": 9.0, "repetition_penalty": 5.0, "no_repeat_ngram_size": 1,
                          "num_beams": 3, "min_new_tokens": 1, "suppress_tokens": list(range(40))}):  # fmt: skip
        folder = shutil.copytree(models / "llama", tmp_path / str(len(settings)))
        (folder / "generation_config.json").write_text(json.dumps(settings))
        causal = load_causal_model(load_model(str(folder)))
        made.append(continue_greedily(causal, torch.arange(12).reshape(3, 4), 8, None))
    assert np.array_equal(*made)
    ids = torch.arange(12).reshape(3, 4)
    model = hf.LlamaForCausalLM.from_pretrained(models / "llama")
    for step in range(8):
        best = model(input_ids=ids).logits[:, -1].argmax(1, keepdim=True)
        assert np.array_equal(best[:, 0], made[0][:, step])
        ids = torch.cat((ids, best), 1)


def test_stray_weights_are_not_read(models, tmp_path):
    for stray in ("consolidated", "pruned", "zz"):
        shutil.copytree(models / "llama", tmp_path / stray)
        tensors = load_file(tmp_path / stray / "model.safetensors")
        save_file({key: tensor + 1 for key, tensor in tensors.items()}, tmp_path / stray / f"{stray}.safetensors")
        found = check(tmp_path / stray, hf.LlamaForCausalLM)
        assert f"not read, as transformers would not: {stray}.safetensors" in found.notes


@pytest.mark.parametrize("name", ["llama", "llama-tied", "gpt2", "bert-encoder", "opt"])
def test_without_transformers_names_are_assumed_and_that_is_noted(models, name, monkeypatch):
    remove_transformers(monkeypatch)
    settings = json.loads((models / name / "config.json").read_text())
    found = load_model(str(models / name))
    assert list(found.embeddings) == list(embeddings_of(getattr(hf, settings["architectures"][0]).from_pretrained(models / name)))
    assert "transformers is not installed" in found.notes[0] and "assumed from the names" in found.notes[1]
