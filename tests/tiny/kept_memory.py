"""A program: resident memory that forward passes keep, in bytes, as JSON; its heap should give every block back at once."""

import json
import sys
from pathlib import Path

import torch

from raretokens.models.registry import build
from tests.tiny import architectures


def resident() -> int:
    lines = Path("/proc/self/status").read_text().split("\n")
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def measured(
    architecture: str, shape: dict, rows: int, positions: int, sides: int, is_half: bool, sequences: int
) -> int:
    torch.manual_seed(0)
    model = build(architecture, shape, rows, positions)
    inputs = [torch.randint(4, rows, (sequences, positions)) for _ in range(sides)]
    with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        model(*inputs).sum().backward()  # what stays after a first pass is not of a pass
    model.zero_grad()
    before = resident()
    with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        states = model(*inputs)
    after = resident()
    states.sum().backward()  # until here the pass keeps what it keeps
    return after - before


if __name__ == "__main__":
    assert architectures.EVERY
    torch.set_num_threads(1)
    print(json.dumps([measured(*case) for case in json.loads(sys.argv[1])]))
