"""A run as a folder of transformers or of CTranslate2."""

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

from safetensors.torch import load_file, save_file
from torch import nn

from raretokens.errors import UserError
from raretokens.evaluation.ctranslate2_models import export as to_ctranslate2
from raretokens.evaluation.ctranslate2_models import export_language_model
from raretokens.files import whole, write_text
from raretokens.models.decoder import Decoder
from raretokens.models.registry import build
from raretokens.tokenization.vocabulary import VOCABULARY, Vocabulary
from raretokens.tools.exporting import card, pieces
from raretokens.tools.trained_run import Finished

FORMS = ("transformers", "ctranslate2")
POSITIONS = 1024  # that are written down, or as many as the run was trained on; sinusoids go on for ever
FILES = ("decoder", "encoder_decoder")  # architectures that have a file here


def write(finished: Finished, into: Path, form: str = FORMS[0]) -> None:
    """Write the folder. Raises UserError where it is not empty, or the architecture has no equal there."""
    architecture = finished.run["architecture"]
    if architecture not in FILES:
        raise UserError(
            f"{finished.name}: {architecture}: {form} has no such model; what can be exported: {', '.join(FILES)}"
        )
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise UserError(f"{into}: is there already; name a folder that is new or empty")
    vocabulary = Vocabulary.read(finished.tokens / VOCABULARY)
    positions = max(POSITIONS, finished.training["block"])
    model = build(architecture, finished.run["shape"], len(vocabulary), positions)
    model.load_state_dict(load_file(finished.model))
    into.mkdir(parents=True, exist_ok=True)
    if form == FORMS[1]:
        _ctranslate2(finished, model, vocabulary, into)
    else:
        cut = _transformers(finished, model, vocabulary, positions, into)
        write_text(
            into / "README.md",
            card.card(finished, import_module(f"raretokens.tools.exporting.{architecture}").CLASS, cut),
        )


def _transformers(finished: Finished, model: nn.Module, vocabulary: Vocabulary, positions: int, into: Path) -> str:
    form = import_module(f"raretokens.tools.exporting.{finished.run['architecture']}")
    shape = finished.run["shape"]
    config = {
        "architectures": [form.CLASS],
        "model_type": form.TYPE,
        "dtype": "float32",
        "tie_word_embeddings": True,
        **form.config(shape, len(vocabulary), positions),
        "raretokens": _facts(finished),
    }
    _json(into / "config.json", config)
    _json(into / "generation_config.json", _generation(finished, form, positions))
    with whole(into / "model.safetensors") as part:
        tensors = {name: tensor.detach().contiguous().clone() for name, tensor in form.weights(model, positions)}
        save_file(tensors, part, metadata={"format": "pt"})
        part.chmod(0o644)
    return pieces.write(finished, positions, into)


def _generation(finished: Finished, form: ModuleType, positions: int) -> dict:
    """With the run's own beam search, where it translates."""
    settings = form.generation(finished.run["shape"], positions)
    if (finished.scale / "data/jobs/translate" / f"{finished.name}.json").is_file() and finished.task == "nmt":
        told = finished.told("translate")
        decoding = told["decoding"]
        settings |= {"num_beams": decoding["beam"], "early_stopping": True, "max_new_tokens": told["longest"]}
        if decoding["length_penalty_form"] == "fairseq":
            settings["length_penalty"] = decoding["length_penalty"]
    return settings


def _facts(finished: Finished) -> dict:
    """What a measurement needs to know: how a text is laid out, and the frequency groups."""
    facts = {"task": finished.task, "run": finished.name, "lines_end_in_eos": True, "groups": finished.groups}
    return facts | ({"probe": finished.told("probe")["probe"]} if finished.task == "lm" else {})


def _ctranslate2(finished: Finished, model: nn.Module, vocabulary: Vocabulary, into: Path) -> None:
    activation = finished.run["shape"]["activation"]
    if isinstance(model, Decoder):
        export_language_model(model, activation, into, vocabulary.pieces)
    else:
        to_ctranslate2(model, vocabulary.pieces, activation, into)


def _json(path: Path, tree: dict) -> None:
    write_text(path, json.dumps(tree, ensure_ascii=False, indent=1) + "\n")
