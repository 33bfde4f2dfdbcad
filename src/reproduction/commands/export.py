"""Export of a trained run as a transformers folder with tokenizer and model card, or as a CTranslate2 folder.

In transformers, BioGPT is the equivalent of the pipeline's decoder, and Marian that of the encoder-decoder. XGLM also has the
decoder's layers, but it computes sinusoids with other frequencies (its exponents end at 1) and does not load them from the file.
BioGPT stores positions as weights, so the sinusoids are written to the file. Marian stores sines and cosines in two halves, but
it reads its positions from the file if they are present, so they are written too.

A subword token that never occurs in the tokenized training text is <unk> to the model. Marian's tokenizer has the same rule,
because it combines a SentencePiece model with a vocabulary of its own ids. Hence it also serves language models with
SentencePiece tokens.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from torch.nn.functional import pad

from raretokens.errors import UserError
from raretokens.files import atomic_write, write_text
from raretokens.objectives.registry import declared
from raretokens.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, VOCABULARY, Vocabulary
from reproduction.commands.trained_run import TrainedRun, model_card
from reproduction.corpora.tokenization.subword_models import BPE, GPT2, SentencePiece
from reproduction.paths import job
from reproduction.tasks.evaluation.ctranslate2_models import export as export_translator
from reproduction.tasks.evaluation.ctranslate2_models import export_language_model
from reproduction.training.models.decoder import Decoder, sinusoids
from reproduction.training.models.encoder_decoder import EncoderDecoder
from reproduction.training.models.registry import build, load_weights

MIN_POSITIONS = 1024  # positions that are written; sinusoids have no last position
SPECIAL_TOKENS = {"unk_token": SPECIALS[UNK], "eos_token": SPECIALS[EOS], "pad_token": SPECIALS[PAD]}
# `tokenise` of corpora/tokenization/words.py -> splitter of transformers, and its description on the model card.
WORD_SPLITS = {
    True: (pre_tokenizers.Whitespace(), "words at blanks and punctuation marks"),
    False: (pre_tokenizers.WhitespaceSplit(), "words at blanks"),
    "letters": (pre_tokenizers.Split(Regex(r"\p{L}+"), "removed", invert=True), "runs of letters, in lower case"),
}


def export_run(run: TrainedRun, folder: Path, to: str = "transformers") -> None:
    """Export a run to an empty or new folder, in the format `to`: transformers or ctranslate2.

    Raises:
        UserError: if the folder is not empty, or the format has no such architecture.
    """
    name = run.run["architecture"]
    if name not in ARCHITECTURES:
        raise UserError(f"{run.name}: {name}: {to} has no such model; allowed: {', '.join(ARCHITECTURES)}")
    if (softcap := (declared(run.run["objective"]).defaults | run.run["options"]).get("softcap")) is not None:
        raise UserError(f"{run.name}: its soft-cap of {softcap} has no place in {to}; allowed: runs without one")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: not empty; name a new or empty folder")
    vocabulary = Vocabulary.read(run.tokens / VOCABULARY)
    positions = max(MIN_POSITIONS, run.training["block"])
    model = build(name, run.run["shape"], len(vocabulary), positions)
    load_weights(model, run.model)
    folder.mkdir(parents=True, exist_ok=True)
    if to == "transformers":
        _write_transformers(run, model, vocabulary, positions, folder)
    elif isinstance(model, Decoder):
        export_language_model(model, run.run["shape"]["activation"], folder, vocabulary.tokens)
    else:
        export_translator(model, vocabulary.tokens, run.run["shape"]["activation"], folder)


def _write_transformers(
    run: TrainedRun, model: nn.Module, vocabulary: Vocabulary, positions: int, folder: Path
) -> None:
    architecture = ARCHITECTURES[run.run["architecture"]]
    config = {
        "architectures": [architecture.model_class],
        "model_type": architecture.model_type,
        "dtype": "float32",
        **_common_config(len(vocabulary), positions),
        **architecture.config(run.run["shape"]),
        "raretokens": _measurement_facts(run),
    }
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", architecture.generation | _beam_search(run))
    with atomic_write(folder / "model.safetensors") as part:
        tensors = {name: tensor.detach().contiguous().clone() for name, tensor in architecture.weights(model, positions)}
        save_file(tensors, part, metadata={"format": "pt"})
        part.chmod(0o644)
    tokenizer = _write_tokenizer(run, vocabulary, positions, folder)
    write_text(folder / "README.md", model_card(run, architecture.model_class, tokenizer))


def _beam_search(run: TrainedRun) -> dict[str, Any]:
    """Return the settings of the run's own beam search, or an empty dictionary if the run does not translate."""
    if run.task != "nmt" or not (run.scale / job("translate", run.name)).is_file():
        return {}
    declared = run.job("translate")
    decoding = declared["decoding"]
    settings = {"num_beams": decoding["beam"], "early_stopping": True, "max_new_tokens": declared["longest"]}
    is_fairseq = decoding["length_penalty_form"] == "fairseq"
    return settings | ({"length_penalty": decoding["length_penalty"]} if is_fairseq else {})


def _measurement_facts(run: TrainedRun) -> dict[str, Any]:
    """Return what `measure` reads from the config: the layout of a text, and the frequency groups."""
    facts = {"task": run.task, "run": run.name, "lines_end_in_eos": True, "groups": run.groups}
    return facts | ({"evaluation": run.job("predict-lm")["evaluation"]} if run.task == "lm" else {})


def _write_json(path: Path, tree: dict[str, Any]) -> None:
    write_text(path, json.dumps(tree, ensure_ascii=False, indent=1) + "\n")


# Equivalents of the pipeline's models in transformers.

NamedWeights = Iterator[tuple[str, Tensor]]
UNUSED_POSITIONS = 2  # first rows of BioGPT's position embedding, which it never reads
# Modules of torch's Transformer layers -> their names in BioGPT and Marian, which name them alike.
SELF_ATTENTION = {"self_attn": "self_attn", "norm1": "self_attn_layer_norm", "linear1": "fc1", "linear2": "fc2"}
ENCODER_LAYER = SELF_ATTENTION | {"norm2": "final_layer_norm"}
DECODER_LAYER = SELF_ATTENTION | {
    "multihead_attn": "encoder_attn", "norm2": "encoder_attn_layer_norm", "norm3": "final_layer_norm"
}  # fmt: skip


class Architecture(NamedTuple):
    """A transformers architecture that computes the same function as an architecture of the pipeline."""

    model_class: str
    model_type: str
    config: Callable[[dict[str, Any]], dict[str, Any]]  # argument: model config
    generation: dict[str, Any]  # settings of generate()
    weights: Callable[[Any, int], NamedWeights]  # arguments: model, positions


def _common_config(types: int, positions: int) -> dict[str, Any]:
    """Return what the configs of all architectures contain: a scaled embedding tied to the softmax, and special tokens."""
    return {
        "vocab_size": types,
        "max_position_embeddings": positions,
        "scale_embedding": True,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }


def _biogpt_config(shape: dict[str, Any]) -> dict[str, Any]:
    """Return a config: pre-norm, final norm."""
    return {
        "hidden_size": shape["width"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "intermediate_size": shape["feedforward"],
        "hidden_act": shape["activation"],
        "hidden_dropout_prob": shape["dropout"],
        "attention_probs_dropout_prob": shape["attention_dropout"],
        "layer_norm_eps": 1e-5,
    }


def _biogpt_weights(model: Decoder, positions: int) -> NamedWeights:
    yield "biogpt.embed_tokens.weight", model.embedding
    encoded = sinusoids(positions, model.embedding.shape[1])
    yield "biogpt.embed_positions.weight", pad(encoded, (0, 0, UNUSED_POSITIONS, 0))
    yield from _layers("biogpt.layers", model.layers.layers)
    yield from ((f"biogpt.layer_norm.{name}", weight) for name, weight in model.layers.norm.named_parameters())


def _marian_config(shape: dict[str, Any]) -> dict[str, Any]:
    """Return a config: post-norm, one embedding for source, target and softmax, no output bias."""
    sides = {
        f"{side}_{what}": shape[key]
        for side in ("encoder", "decoder")
        for what, key in (("layers", "layers"), ("attention_heads", "heads"), ("ffn_dim", "feedforward"))
    }
    return sides | {
        "d_model": shape["width"],
        "activation_function": shape["activation"],
        "dropout": shape["dropout"],
        "attention_dropout": shape["attention_dropout"],
        "share_encoder_decoder_embeddings": True,
        "is_encoder_decoder": True,
        "decoder_start_token_id": EOS,
        "forced_eos_token_id": None,
    }


def _marian_weights(model: EncoderDecoder, positions: int) -> NamedWeights:
    yield "model.shared.weight", model.embedding
    yield "final_logits_bias", torch.zeros(1, len(model.embedding))
    encoded = sinusoids(positions, model.embedding.shape[1])
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        yield f"model.{side}.embed_positions.weight", encoded.clone()
        yield from _layers(f"model.{side}.layers", stack.layers)


def _layers(name: str, layers: nn.ModuleList) -> NamedWeights:
    """Yield the weights of Transformer layers. Torch concatenates the three projections of an attention in one matrix."""
    for number, layer in enumerate(layers):
        renamed = DECODER_LAYER if isinstance(layer, nn.TransformerDecoderLayer) else ENCODER_LAYER
        for path, weight in layer.named_parameters():
            module, _, parameter = path.partition(".")
            target = f"{name}.{number}.{renamed[module]}"
            if parameter.startswith("in_proj_"):
                for part, third in zip("qkv", weight.chunk(3), strict=True):
                    yield f"{target}.{part}_proj.{parameter.removeprefix('in_proj_')}", third
            else:
                yield f"{target}.{parameter}", weight


ARCHITECTURES = {  # keys: architectures of the pipeline
    "decoder": Architecture(
        "BioGptForCausalLM",
        "biogpt",
        _biogpt_config,
        # Training texts follow one another, so </s> precedes each text.
        {"bos_token_id": EOS, "eos_token_id": EOS, "pad_token_id": PAD, "suppress_tokens": [PAD]},
        _biogpt_weights,
    ),
    "encoder_decoder": Architecture(
        "MarianMTModel",
        "marian",
        _marian_config,
        {"decoder_start_token_id": EOS, "eos_token_id": EOS, "pad_token_id": PAD, "bad_words_ids": [[PAD]]},
        _marian_weights,
    ),
}


# The tokenizer. Each function returns a sentence for the model card.


def _write_tokenizer(run: TrainedRun, vocabulary: Vocabulary, positions: int, folder: Path) -> str:
    if any((run.tokens / kind.FILE).exists() for kind in (GPT2, BPE)):
        return _copy_merges(run.tokens, folder)
    ids = {token: id for id, token in enumerate(vocabulary.tokens[: vocabulary.types])}
    settings = {"model_max_length": positions, **SPECIAL_TOKENS}
    if (run.tokens / SentencePiece.FILE).exists():
        return _write_sentence_piece(run.tokens / SentencePiece.FILE, ids, settings, folder)
    return _write_words(run.job("encode", run.run["tokens"])["vocabulary"]["tokenise"], ids, settings, folder)


def _write_sentence_piece(model: Path, ids: dict[str, int], settings: dict[str, Any], folder: Path) -> str:
    for side in ("source.spm", "target.spm"):
        shutil.copyfile(model, folder / side)
    _write_json(folder / "vocab.json", ids)
    settings |= {"tokenizer_class": "MarianTokenizer", "separate_vocabs": False, "source_lang": None, "target_lang": None}
    _write_json(folder / "tokenizer_config.json", settings)
    return "Text is cut by SentencePiece (`MarianTokenizer`), and `</s>` ends each line."


def _write_words(tokenise: bool | str, ids: dict[str, int], settings: dict[str, Any], folder: Path) -> str:
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=SPECIALS[UNK]))
    tokenizer.pre_tokenizer, description = WORD_SPLITS[tokenise]
    if tokenise == "letters":
        tokenizer.normalizer = normalizers.Lowercase()
    end = SPECIALS[EOS]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, EOS)]
    )
    tokenizer.add_special_tokens([token for token in SPECIALS if token in ids])
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "tokenizer_config.json", settings | {"tokenizer_class": "PreTrainedTokenizerFast"})
    return f"Text is cut into {description}, and `</s>` ends each line."


def _copy_merges(tokens: Path, folder: Path) -> str:
    """Copy the tokenizer files of the pipeline. No transformers tokenizer gives <unk> for a token that later merges need."""
    for name in (VOCABULARY, GPT2.FILE, BPE.FILE):
        if (tokens / name).exists():
            shutil.copyfile(tokens / name, folder / name)
    return (
        "The tokenizer is not in the form of transformers: its merges pass through tokens that have no row in the embedding. "
        f"`reproduction.corpora.tokenization.tokenizer.Tokenizer` reads its files in this folder; `{VOCABULARY}` names "
        "the row of each token."
    )
