"""Time of a whole training step of each objective beside MLE, and of AGG's counters alone.

    python benchmarks/step.py [--sizes demo,lm6] [--out benchmarks/step-cpu.csv]

The objectives take turns in one process, several rounds; the best round of each counts. Random tokens of falling frequency.
"""

import argparse
import csv
import time
from pathlib import Path

import torch

from raretokens import build, facts
from raretokens.config import Size
from raretokens.consistency import objectives
from raretokens.models import build as build_model

SIZES = {  # layers, width, heads, feedforward, vocabulary, sequences, length
    "demo": (2, 128, 4, 512, 5840, 16, 128),
    "lm6": (6, 512, 8, 2048, 8192, 4, 256),
}


class Step:
    def __init__(self, name: str, size: str) -> None:
        layers, width, heads, feedforward, self.vocabulary, sequences, length = SIZES[size]
        torch.manual_seed(0)
        shape = Size(layers=layers, width=width, heads=heads, feedforward=feedforward, dropout=0.1, attention_dropout=0.0,
                     activation="relu")  # fmt: skip
        self.model = build_model("lm", shape, self.vocabulary, length)
        self.ids = (torch.rand(sequences, length + 1) ** 4 * (self.vocabulary - 4)).long() + 4
        counts = torch.bincount(self.ids.reshape(-1), minlength=self.vocabulary) * 400
        known = facts(counts, width=width, updates_per_epoch=400, specials=4, pad=1)
        self.objective = build(name, known)
        table = self.model.table
        rest = [p for p in self.model.parameters() if p is not table]
        groups = [{"params": [table], "table": True}, {"params": rest, "table": False}]
        self.optimizer = self.objective.optimizer(groups, lr=1e-3, weight_decay=0.01)

    def run(self) -> tuple[float, float]:
        """Processor seconds of a step, and of the objective's counting in it."""
        start = time.process_time()
        self.objective.begin_update(torch.bincount(self.ids[:, 1:].reshape(-1), minlength=self.vocabulary))
        counted = time.process_time() - start
        hidden = self.model(self.ids[:, :-1])
        loss = self.objective.loss(hidden, self.model.table, self.ids[:, 1:]).loss / self.ids[:, 1:].numel()
        penalty = self.objective.penalty(self.model.table)
        (loss if penalty is None else loss + penalty).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.objective.end_update(self.model.table)
        return time.process_time() - start, counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="demo,lm6")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    for size in arguments.sizes.split(","):
        steps = {name: Step(name, size) for name in objectives()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
        for _ in range(arguments.rounds):
            for name, step in steps.items():
                times[name].append(step.run())
        best = {name: min(found[2:]) for name, found in times.items()}  # the first rounds warm up
        for name, (seconds, counted) in best.items():
            ratio, share = seconds / best["mle"][0], counted / seconds
            rows.append({"size": size, "objective": name, "seconds": f"{seconds:.4f}"})
            rows[-1] |= {"to_mle": f"{ratio:.3f}", "counting_share": f"{share:.4f}"}
            print(rows[-1], flush=True)
    if arguments.out:
        with open(arguments.out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
