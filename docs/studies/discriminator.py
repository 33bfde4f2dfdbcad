"""Does FRAGE's discriminator keep up with Adam? A study on random rows with random gradients of the words of a step.

    python docs/studies/discriminator.py            # a minute on a core

The study writes discriminator.csv, as means over five embedding matrices. It has the balanced accuracy, in percent,
of a discriminator that is trained anew on the rows after some steps, and the cross-entropy, in nats, of FRAGE's own
discriminator. Chance is 50 % and ln 2 = 0.693 nats. The first line has no adversary and shows the variation of the accuracy.
"""

from collections.abc import Iterator

import numpy as np
import torch
from shared import write_table
from torch import Tensor

from raretokens import build, facts
from raretokens.metrics.frequency import popularity_accuracy
from raretokens.vocabulary import FREQ, RARE

ROWS, WIDTH, TABLES = 2000, 64, 5
AFTER = (50, 150, 300)
RATE, GRADIENT, WORDS = 1e-3, 1e-3, 200  # of Adam; standard deviation of the gradient of a word; words of a step
COLUMNS = ["settings", *(f"anew, after {n}" for n in AFTER), *(f"own, after {n}" for n in AFTER)]
SETTINGS: dict[str, dict | None] = {
    "no adversary": None,
    "the defaults": {},
    "strength: 0.001": {"strength": 0.001},
    "moves_table: true": {"moves_table": True},
    "steps: 5": {"steps": 5},
    "steps: 20 (code, translation)": {"steps": 20},
    "lr: 1.0": {"lr": 1.0},
    "lr: 1.0, steps: 5": {"lr": 1.0, "steps": 5},
    "lr: 3.0": {"lr": 3.0},
    "lr: 10.0": {"lr": 10.0},
}


def course(options: dict | None, seed: int) -> Iterator[tuple[float, float]]:
    """Yield the accuracy of a new discriminator and the cross-entropy of FRAGE's own (or NaN), after each step of AFTER."""
    torch.manual_seed(seed)
    counts = (1e6 / torch.arange(1, ROWS + 1)).long()
    table = torch.nn.Parameter(torch.randn(ROWS, WIDTH) * WIDTH**-0.5)
    known = facts(counts, width=WIDTH, steps_per_epoch=int(counts.sum() / WORDS))
    objective = None if options is None else build("frage", known, hidden=True, **options)
    adam = torch.optim.Adam([table], lr=RATE, betas=(0.9, 0.99))
    for step in range(1, AFTER[-1] + 1):
        occur = torch.multinomial(counts.float(), WORDS, replacement=True).bincount(minlength=ROWS)
        table.grad = torch.randn(ROWS, WIDTH) * occur[:, None].sqrt() * GRADIENT
        if objective:
            play(objective, table, adam, counts)
        else:
            adam.step()
        if step in AFTER:
            yield accuracy(table, counts), own(objective, table) if objective else float("nan")


def play(objective: torch.nn.Module, table: Tensor, adam: torch.optim.Optimizer, counts: Tensor) -> None:
    objective.begin_step(counts)
    objective.penalty(table).backward()
    adam.step()
    with torch.no_grad():
        objective.end_step(table)


def accuracy(table: Tensor, counts: Tensor) -> float:
    groups = np.where(np.arange(ROWS) < ROWS // 5, FREQ, RARE)
    found, _ = popularity_accuracy(table.detach().numpy(), counts.numpy(), groups)
    return found["accuracy"]


def own(objective: torch.nn.Module, table: Tensor) -> float:
    """Return the mean of the cross-entropies of the two classes, in nats, whose sum the objective takes."""
    with torch.no_grad():
        return float(objective.cross_entropy(table, dict(objective.discriminator.named_parameters()))) / 2


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name, options in SETTINGS.items():
        anew, its = np.mean([list(course(options, seed)) for seed in range(TABLES)], axis=0).T
        shown = ["" if np.isnan(value) else f"{value:.3f}" for value in its]
        rows.append([name, *(f"{value:.1f}" for value in anew), *shown])
        print(*rows[-1], sep=", ", flush=True)
    write_table("discriminator", COLUMNS, rows)


if __name__ == "__main__":
    main()
