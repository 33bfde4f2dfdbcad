"""What tests of measure share: a tiny Llama, tokenizers, the measurement of a path, a world without transformers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from raretokens.measure import tokenizers, transformers_models
from raretokens.measure.measurement import Measurement, MeasureOptions, measure_model
from raretokens.measure.model import load_model


def measured(path: Path, options: MeasureOptions | None = None) -> list[Measurement]:
    return measure_model(load_model(str(path)), options or MeasureOptions(), print)


def notes(found: list[Measurement]) -> str:
    return "\n".join(note for one in found for note in one.notes)


def llama(rows: int, **settings: Any) -> Any:
    """Return a model with one small layer, unless the settings say otherwise, and random weights."""
    import transformers

    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = transformers.LlamaConfig(vocab_size=rows, **{**shape, "max_position_embeddings": 64, **settings})
    return transformers.LlamaForCausalLM(config)


def write_llama(folder: Path, rows: int, **settings: Any) -> None:
    llama(rows, **settings).save_pretrained(folder)


def write_word_level(folder: Path, words: Iterable[str], unk_token: str) -> None:
    """Write a tokenizer of words between spaces, whose ids are their places."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token=unk_token))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))


def train_sentencepiece(prefix: Path, text: Path, size: int, **settings: Any) -> Any:
    """Write PREFIX.model, with that many subword tokens at most, and return it."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    given = {"input": str(text), "model_prefix": str(prefix), "vocab_size": size, "hard_vocab_limit": False, "minloglevel": 2}
    SentencePieceTrainer.train(**given, **settings)
    return SentencePieceProcessor(model_file=f"{prefix}.model")


def remove_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let measure find no transformers."""

    def missing():
        raise ModuleNotFoundError("transformers", name="transformers")

    for module in (transformers_models, tokenizers):
        monkeypatch.setattr(module, "import_transformers", missing)
