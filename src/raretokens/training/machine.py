"""What changes the speed and not the answer: read from data/scratch/machine.yaml, never a parameter of the pipeline."""

from pathlib import Path

import torch
import yaml
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError

from raretokens.config import Section, UserError

FILE = Path("data/scratch/machine.yaml")
MICRO_BATCH = {"cpu": 2048, "cuda": 65536}  # tokens, where the file does not say


def _on_cuda() -> bool:
    return torch.cuda.is_available()


class Machine(Section):
    """Defaults follow the device."""

    launch: str = ""  # what starts several processes, such as: torchrun --standalone --nproc-per-node 8
    # Tokens of one forward and backward pass.
    micro_batch: PositiveInt = Field(default_factory=lambda: MICRO_BATCH["cuda" if _on_cuda() else "cpu"])
    # Source pieces that are translated at once.
    decoding_batch: PositiveInt = Field(default_factory=lambda: 16384 if _on_cuda() else 1024)
    # Processes that prepare updates ahead of the training; 0: it does so itself.
    workers: NonNegativeInt = Field(default_factory=lambda: 2 if _on_cuda() else 0)
    compile: bool = False  # torch.compile of the model
    save_seconds: PositiveFloat = 120.0  # between two saves of the resumable state
    save_updates: NonNegativeInt = 0  # saves by number of updates instead, if positive
    report_seconds: NonNegativeFloat = 5.0  # between two lines of progress


def read(path: Path = FILE) -> Machine:
    """The machine's settings; what the file does not say, or an absent file, gives the defaults."""
    if not path.exists():
        return Machine()
    try:
        return Machine.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise UserError("\n".join(_line(path, dict(item)) for item in error.errors())) from None


def _line(path: Path, item: dict) -> str:
    key = ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        return f"{path}: {key}: unknown key; allowed: {', '.join(sorted(Machine.model_fields))}"
    return f"{path}: {key}: {item['input']!r} is not allowed: {item['msg'].lower()}"
