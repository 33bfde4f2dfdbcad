"""Time and memory of a whole training step of each objective beside MLE, and the share of AGG's counters in it.

    python benchmarks/step.py [--sizes demo,lm6] [--out benchmarks/step-cpu.csv]

The objectives take turns in one process, several rounds. Seconds are those of the best round; the ratio to MLE is the median
of the rounds' ratios, which other work on the machine disturbs least. Memory is the peak of a step above the model, the
optimizer's state and the objective's, each objective in a process of its own. Random tokens of falling frequency, about 2 % of
them rare as AGG counts (demo; 8 % in lm6).
"""

import argparse
import csv
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import torch
from loss import peak_bytes, reset_peak

from raretokens import build, facts, keep_frozen_rows
from raretokens.config import Size
from raretokens.consistency import objectives
from raretokens.models import build as build_model

SIZES = {  # layers, width, heads, feedforward, vocabulary, sequences, length
    "demo": (2, 128, 4, 512, 5840, 16, 128),
    "lm6": (6, 512, 8, 2048, 8192, 4, 256),
}
EPOCH = 400  # updates, that AGG has counted before the first step
WARM_UP = 2  # rounds that do not count


class Step:
    def __init__(self, name: str, size: str) -> None:
        layers, width, heads, feedforward, self.vocabulary, self.sequences, self.length = SIZES[size]
        torch.manual_seed(0)
        shape = Size(layers=layers, width=width, heads=heads, feedforward=feedforward, dropout=0.1, attention_dropout=0.0,
                     activation="relu")  # fmt: skip
        self.model = build_model("lm", shape, self.vocabulary, self.length)
        past = [self.counts(self.draw()) for _ in range(EPOCH)]
        self.objective = build(name, facts(sum(past), width=width, updates_per_epoch=EPOCH, specials=4, pad=1))
        for counts in past:
            self.objective.begin_update(counts)
        table = self.model.table
        rest = [p for p in self.model.parameters() if p is not table]
        groups = [{"params": [table], "table": True}, {"params": rest, "table": False}]
        self.optimizer = self.objective.optimizer(groups, lr=1e-3, weight_decay=0.01)

    def draw(self) -> torch.Tensor:
        return (torch.rand(self.sequences, self.length + 1) ** 16 * (self.vocabulary - 4)).long() + 4

    def counts(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.bincount(ids[:, 1:].reshape(-1), minlength=self.vocabulary)

    def run(self) -> tuple[float, float]:
        """Processor seconds of a step, and of the objective's own work before the loss and for the log."""
        ids = self.draw()
        start = time.process_time()
        counts = self.counts(ids)
        begun = time.process_time()
        self.objective.begin_update(counts)
        counting = time.process_time() - begun
        hidden = self.model(ids[:, :-1])
        loss = self.objective.loss(hidden, self.model.table, ids[:, 1:]).loss / ids[:, 1:].numel()
        penalty = self.objective.penalty(self.model.table)
        (loss if penalty is None else loss + penalty).backward()
        with keep_frozen_rows(self.objective, self.model.table):
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.objective.end_update(self.model.table)
        begun = time.process_time()
        self.objective.report()
        end = time.process_time()
        return end - start, counting + end - begun


def peak(name: str, size: str) -> int:
    """Peak bytes of a step above what lives between steps."""
    step = Step(name, size)
    for _ in range(WARM_UP):
        step.run()
    before = reset_peak("cpu")
    step.run()
    return peak_bytes("cpu") - before


def apart(name: str, size: str) -> int:
    """`peak` in a new process, whose allocator gives every large block back at once."""
    command = [sys.executable, __file__, "--peak", name, "--sizes", size]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    return int(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def compare(size: str, names: list[str], rounds: int) -> list[dict]:
    steps = {name: Step(name, size) for name in names}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(WARM_UP + rounds):
        for name, step in steps.items():
            times[name].append(step.run())
    del steps
    bytes_, rows = {name: apart(name, size) for name in names}, []
    base = [seconds for seconds, _ in times["mle"][WARM_UP:]]
    for name, found in times.items():
        seconds, counting = zip(*found[WARM_UP:], strict=True)
        ratio = median(own / mle for own, mle in zip(seconds, base, strict=True))
        row = {"size": size, "objective": name, "seconds": f"{min(seconds):.4f}", "time_to_mle": f"{ratio:.3f}"}
        row |= {"counting_share": f"{min(counting) / min(seconds):.4f}", "MB": round(bytes_[name] / 1e6)}
        rows.append(row | {"memory_to_mle": f"{bytes_[name] / bytes_['mle']:.3f}"})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="demo,lm6")
    parser.add_argument("--objectives", default=",".join(objectives()), help="mle must be among them")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.peak:
        print(peak(arguments.peak, arguments.sizes))
        return
    names, rows = arguments.objectives.split(","), []
    for size in arguments.sizes.split(","):
        rows += compare(size, names, arguments.rounds)
    if arguments.out:
        machine = f"{platform.machine()}, {torch.get_num_threads()} threads"
        with open(arguments.out, "w", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0], "machine"], lineterminator="\n")
            writer.writeheader()
            writer.writerows({**row, "machine": machine} for row in rows)


if __name__ == "__main__":
    main()
