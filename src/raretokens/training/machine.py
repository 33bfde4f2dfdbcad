"""What changes the speed and not the answer: read from data/scratch/machine.yaml, never a parameter of the pipeline."""

from dataclasses import dataclass, fields
from pathlib import Path

import torch
import yaml

from raretokens.config import UserError

FILE = Path("data/scratch/machine.yaml")


@dataclass(frozen=True)
class Machine:
    micro_batch: int = 16384  # tokens of one forward and backward pass
    decoding_batch: int = 1024  # source pieces translated at once
    save_seconds: float = 120.0  # between two saves of the resumable state
    save_updates: int = 0  # saves by number of updates instead, if positive; several processes need it
    report_seconds: float = 5.0  # between two lines of progress


def read(path: Path = FILE) -> Machine:
    """The machine's settings; an absent file gives the defaults."""
    if not path.exists():
        if torch.cuda.is_available():
            return Machine(micro_batch=65536, decoding_batch=16384)
        return Machine(micro_batch=2048)
    tree = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    known = {field.name for field in fields(Machine)}
    for key in tree:
        if key not in known:
            raise UserError(f"{path}: {key}: unknown key; allowed: {', '.join(sorted(known))}")
    return Machine(**tree)
