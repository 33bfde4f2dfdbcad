"""A scale's folder with runs that look finished: real token files, models with random weights, made-up scores."""

import json
from pathlib import Path

import numpy as np
import torch
import yaml
from safetensors.torch import save_file

from raretokens.vocabulary import EOS, PAD, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization.encode import encode
from reproduction.corpora.tokenization.settings import EncodeJob as Job
from reproduction.corpora.tokenization.token_files import Bitext
from reproduction.training.example_batches import padded
from reproduction.training.models.registry import build, stored
from tiny.world import lines

SHAPE = {"layers": 2, "width": 32, "heads": 2, "feedforward": 48, "dropout": 0.1, "attention_dropout": 0.0}
GROUPS = {"fractions": [0.3, 0.5, 0.2], "boundaries": None}
EVALUATION = {"window": 32, "context": 16, "block": 24, "continuation": {"samples": 4, "prefix": 10, "length": 12}}
DECODING = {"beam": 4, "length_penalty": 0.6, "length_penalty_form": "fairseq", "compute_type": "float32"}
WORDS = {"model": "words", "size": None, "tokenise": True}
SEED = {"lm": 1, "nmt": 3}


def create(folder: Path) -> Path:
    """Decoders lm/pieces, lm/words, lm/blanks and lm/letters, and nmt/pairs, an encoder-decoder."""
    _corpora(folder)
    for name, corpus, sides, vocabulary in (
        ("lm", "lm", (".txt",), 120),
        ("words", "lm", (".txt",), WORDS),
        ("blanks", "lm", (".txt",), WORDS | {"tokenise": False}),
        ("letters", "lm", (".txt",), WORDS | {"tokenise": "letters"}),
        ("nmt", "nmt", (".source", ".target"), 120),
    ):
        told = Job(name=name, sides=sides, vocabulary=vocabulary)
        encode(told, folder / "data/corpus" / corpus, folder / "data/tokens" / name)
        _json(folder / f"data/jobs/encode/{name}.json", {"job": told.model_dump(mode="json")})
    tokens = {name: {"corpus": "nmt" if name == "nmt" else "lm"} for name in ("lm", "words", "blanks", "letters", "nmt")}
    (folder / "params.yaml").write_text(yaml.safe_dump({"tokens": tokens}))
    run(folder, "lm", "pieces", "lm", "decoder", "gelu")
    for name in ("words", "blanks", "letters"):
        run(folder, "lm", name, name, "decoder", "relu")
    run(folder, "nmt", "pairs", "nmt", "encoder_decoder", "relu")
    return folder


def _corpora(folder: Path) -> None:
    for seed, (split, count) in enumerate({"train": 400, "valid": 20, "test": 60}.items()):
        source, target = lines(count, seed)
        for path, text in (("lm/{}.txt", source), ("nmt/{}.source", source), ("nmt/{}.target", target)):
            file = folder / "data/corpus" / path.format(split)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{line}\n" for line in text))
    for corpus in ("lm", "nmt"):
        _json(folder / f"data/jobs/prepare/{corpus}.json", {"job": {"corpus": "bible"}})


def run(folder: Path, task: str, name: str, tokens: str, architecture: str, activation: str) -> None:
    """Everything that a finished run leaves."""
    known = Vocabulary.read(folder / "data/tokens" / tokens / VOCABULARY)
    shape = {**SHAPE, "activation": activation}
    torch.manual_seed(SEED[task])
    model = build(architecture, shape, len(known), 64)
    with torch.no_grad():  # decided enough that rounding does not choose
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        model.embedding.mul_(2).add_(0.3 * torch.randn(32))
    if task == "nmt":
        learn(model, Bitext(folder / "data/tokens" / tokens, "train"))
    trained = folder / "data/runs" / task / name
    trained.mkdir(parents=True)
    save_file(stored(model.state_dict()), trained / "model.safetensors")
    _json(trained / "training.json", {})
    told = {"name": name, "task": task, "tokens": tokens, "objective": "agg", "model": "tiny", "seed": 1}
    told |= {"architecture": architecture, "shape": shape, "options": {"alpha": 0.03}, "reverse": False}
    training = {"run": told, "training": {"block": 48}, "groups": GROUPS}
    _json(folder / f"data/jobs/train-{task}/{name}.json", {"job": training})
    if task == "lm":
        _json(folder / f"data/jobs/predict-lm/{name}.json", {"job": {"evaluation": EVALUATION}})
    else:
        _json(folder / f"data/jobs/translate/{name}.json", {"job": {"decoding": DECODING, "longest": 24}})
    score = {"metrics": {"ppl": {"total": 12.5}, "chrf": None}, "parameters": [["layers", 2]]}
    score |= {"signatures": [["ppl", "log:e|unit:piece"]], "options": [["alpha", 0.03]]}
    _json(folder / f"reports/runs/{task}/{name}.json", score)


def learn(model: torch.nn.Module, pairs: Bitext, updates: int = 120) -> None:
    """Until most translations end."""
    optimizer, random = torch.optim.Adam(model.parameters(), 3e-3), np.random.default_rng(0)
    for _ in range(updates):
        chosen = [pairs.pair(int(i)) for i in random.integers(len(pairs), size=32)]
        targets = padded([target for _, target in chosen])
        inputs = padded([np.append([EOS], target[:-1]) for _, target in chosen])
        hidden = model(padded([source for source, _ in chosen]), inputs)
        loss = torch.nn.functional.cross_entropy(
            (hidden @ model.embedding.T).flatten(0, 1), targets.flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _json(path: Path, tree: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tree))


def table(folder: Path, task: str, name: str) -> np.ndarray:
    from safetensors.numpy import load_file

    return load_file(folder / f"data/runs/{task}/{name}/model.safetensors")["table"]
