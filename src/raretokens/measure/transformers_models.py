"""Models as transformers would load them: on the meta device, to find the embeddings, or with weights, for predictions.

No code of a model folder is run, and nothing is downloaded.
"""

import inspect
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from raretokens.errors import UserError
from raretokens.measure.notes import first_line

AUTO_CLASSES = ("MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "MODEL_FOR_MASKED_LM_MAPPING",
                "MODEL_MAPPING")  # fmt: skip
LOCAL = {"local_files_only": True, "trust_remote_code": False}
# Whether the user forbids requests to the Hugging Face Hub. import_transformers() sets the first variable.
IS_OFFLINE = any(
    os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
)


class Roles(NamedTuple):
    """The roles of a checkpoint's tensors in the model that transformers builds."""

    parameters: dict[str, str]  # role ("input", "encoder input", "decoder input", "output") -> parameter
    shapes: dict[str, tuple[int, ...]]  # shapes of the parameters
    tied: dict[str, str]  # parameter -> parameter that transformers ties it to, unless the file contains both
    files: dict[str, str]  # parameter or buffer -> tensor in the files
    has_output_bias: bool | None  # None: the model has no output embedding
    architecture: str
    is_assumed: bool  # whether config.json names no architecture of transformers


def import_transformers() -> ModuleType:
    """Import transformers in offline mode. Raise ModuleNotFoundError if it is not installed."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers
    from huggingface_hub import constants

    constants.HF_HUB_OFFLINE = True  # the variable has no effect if huggingface_hub was imported before
    transformers.logging.set_verbosity_error()  # its warnings are covered by notes
    return transformers


def find_roles(folder: Path, names: Collection[str]) -> Roles:
    """Find the embeddings among the named tensors of a model folder with transformers.

    Raises:
        ModuleNotFoundError: if transformers is not installed.
        UserError: if transformers does not know the model, or cannot build it from config.json.
    """
    config, classes = _load_config(folder)
    from transformers.initialization import no_init_weights

    fits = []
    for model_class in classes:
        try:
            with torch.device("meta"), no_init_weights():
                model = model_class(config)
        except Exception as error:  # a model's code may raise any exception for an unusual configuration
            raise UserError(f"transformers cannot build {model_class.__name__}: {first_line(error)}") from None
        files = _match_names(model, names)
        tied = {name for pair in model.all_tied_weights_keys.items() for name in pair}
        missing = sum(name not in files and name not in tied for name, _ in model.named_parameters())
        fits.append((missing, len(names) - len(files), len(fits), model, files))
    *_, model, files = min(fits, key=lambda fit: fit[:3])
    parameters, shapes = {}, {}
    module_names = {module: name for name, module in model.named_modules()}
    for role, module in _embedding_modules(model):
        if _has_matrix(module) and module in module_names:
            parameters[role] = f"{module_names[module]}.weight"
            shapes[parameters[role]] = tuple(module.weight.shape)
    has_bias = _has_output_bias(model, parameters["output"]) if "output" in parameters else None
    architecture, tied = type(model).__name__, dict(model.all_tied_weights_keys)
    is_assumed = architecture not in (config.architectures or [])
    return Roles(parameters, shapes, tied, files, has_bias, architecture, is_assumed)


def _load_config(folder: Path) -> tuple[Any, list[type[nn.Module]]]:
    """Return the configuration and the class that it names, or else the classes that transformers has for it."""
    transformers = import_transformers()
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **LOCAL)
    except Exception as error:  # config.json may contain anything
        raise UserError(f"transformers cannot read config.json: {first_line(error)}") from None
    for name in config.architectures or []:
        model_class = getattr(transformers, name, None) if isinstance(name, str) else None
        if isinstance(model_class, type) and issubclass(model_class, transformers.PreTrainedModel):
            return config, [model_class]
    mappings = [getattr(transformers, name) for name in AUTO_CLASSES]
    found = [mapping[type(config)] for mapping in mappings if type(config) in mapping]
    classes = [one for some in found for one in (some if isinstance(some, (list, tuple)) else [some])]
    if not classes:
        raise UserError(f"transformers has no language model of type {config.model_type}")
    return config, classes


def _match_names(model: nn.Module, names: Collection[str]) -> dict[str, str]:
    """Return parameter or buffer -> tensor in the files, renamed in the same way as transformers does when it loads them."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, rename_source_key

    mapping = get_model_conversion_mapping(model) or []
    converters = [one for one in mapping if isinstance(one, WeightConverter)]
    renamings = [one for one in mapping if not isinstance(one, WeightConverter)]
    wanted, prefix, found = model.state_dict(), model.base_model_prefix, {}
    for name in names:
        renamed, _ = rename_source_key(name, renamings, converters, prefix, wanted)
        if renamed not in wanted and name in wanted:
            renamed, _ = rename_source_key(name, [], [], prefix, wanted)
        if renamed in wanted:
            found.setdefault(renamed, name)
    return found


def _embedding_modules(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield role and module of each embedding, or None for the module. Encoder and decoder may each have their own."""
    encoder, decoder = (_input_module(model, part) for part in ("get_encoder", "get_decoder"))
    if model.config.is_encoder_decoder and encoder is not None and decoder not in (None, encoder):
        yield "encoder input", encoder
        yield "decoder input", decoder
    else:
        yield "input", _input_module(model, None)
    yield "output", model.get_output_embeddings()


def _input_module(model: Any, part: str | None) -> nn.Module | None:
    owner = getattr(model, part)() if part else model
    if not hasattr(owner, "get_input_embeddings"):
        return None  # a part that is no model of its own, such as the stack of layers of BERT
    try:
        module = owner.get_input_embeddings()
    except NotImplementedError:  # how transformers says that it knows of none
        return None
    return module if _has_matrix(module) else None


def _has_matrix(module: Any) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.dim() == 2


def _has_output_bias(model: Any, output: str) -> bool:
    """Whether logits have a bias: of the output module, of the head around it, or of the whole model (BART, Marian)."""
    module, rows = output.rpartition(".")[0], model.get_parameter(output).shape[0]
    heads = [model.get_submodule(module), model.get_submodule(module.rpartition(".")[0])]
    own = [pair for head in heads for pair in head.named_parameters(recurse=False)]
    own += [pair for part in (*heads, model) for pair in part.named_buffers(recurse=False)]
    return any("bias" in name and tensor.shape[-1:] == (rows,) for name, tensor in own)


class TransformersModel:
    """A causal model of transformers."""

    def __init__(self, folder: Path) -> None:
        if (folder / "adapter_config.json").is_file():
            raise UserError("the folder contains adapter_config.json; merge the adapter into the model first")
        config, classes = _load_config(folder)
        if config.is_encoder_decoder or not getattr(classes[0], "can_generate", lambda: False)():
            raise UserError(f"{classes[0].__name__} is not a causal language model")
        try:
            self.model, info = classes[0].from_pretrained(
                folder, config=config, use_safetensors=True, output_loading_info=True, **LOCAL
            )
        except Exception as error:  # a model's code may raise any exception for an unusual configuration
            raise UserError(f"transformers cannot load it: {first_line(error)}") from None
        if info["missing_keys"]:
            names = sorted(info["missing_keys"])
            raise UserError(
                f"the file has no {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}, "
                "which transformers would set at random"
            )
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model.to(self.device).eval()
        self.vocab_size = self.model.get_output_embeddings().weight.shape[0]
        parameters = inspect.signature(self.model.forward).parameters
        self.takes_mask = "attention_mask" in parameters
        self.has_states = "output_hidden_states" in parameters or any(
            one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()
        )
        self.dtype = self.model.dtype

    def logits(self, ids: Tensor, first: int) -> Tensor:
        return self._read(ids).logits[:, first:].float()

    def logits_and_states(self, ids: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the logits of all positions, and the hidden states of each layer (sequences x positions x d), if any."""
        output = self._read(ids, **({"output_hidden_states": True} if self.has_states else {}))
        return output.logits.float(), getattr(output, "hidden_states", None) or ()

    def _read(self, ids: Tensor, **options: bool) -> Any:
        ids = ids.to(self.device)
        mask = {"attention_mask": torch.ones_like(ids)} if self.takes_mask else {}  # else <pad> in a text would be masked
        return self.model(input_ids=ids, use_cache=False, **mask, **options)
