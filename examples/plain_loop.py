"""AGG in a training loop of one's own: a small model on made-up text, in forty lines.

python examples/plain_loop.py [objective]
"""

import sys

import torch
from torch import nn

from raretokens import build, facts, keep_frozen_rows, target_counts

N, D, BATCH, LENGTH, MICRO_BATCHES, UPDATES = 500, 64, 8, 32, 2, 60


def main(name: str = "agg") -> list[float]:
    torch.manual_seed(0)
    text = (torch.rand(40_000) ** 4 * N).long()  # falling frequency
    table = nn.Parameter(torch.randn(N, D) * D**-0.5)  # input embedding and softmax weight
    model = nn.GRU(D, D, batch_first=True)
    per_update = MICRO_BATCHES * BATCH * LENGTH
    known = facts(torch.bincount(text, minlength=N), width=D, updates_per_epoch=len(text) // per_update)
    objective = build(name, known, **({"alpha": 0.05} if name == "agg" else {}))
    groups = [{"params": [table], "table": True}, {"params": model.parameters(), "table": False}]
    optimizer = objective.optimizer(groups, lr=3e-3, weight_decay=0.01)
    history = []
    for update in range(UPDATES):
        starts = torch.randint(0, len(text) - LENGTH - 1, (MICRO_BATCHES, BATCH, 1))
        windows = text[starts + torch.arange(LENGTH + 1)]  # micro-batches x sequences x positions + 1
        targets = windows[..., 1:]
        objective.begin_update(target_counts(targets, N))
        for inputs, wanted in zip(windows[..., :-1], targets, strict=True):
            hidden, _ = model(nn.functional.embedding(inputs, table))
            (objective.loss(hidden, table, wanted).loss / targets.numel()).backward()
        penalty = objective.penalty(table)
        if penalty is not None:
            penalty.backward()
        with keep_frozen_rows(objective, table):
            optimizer.step()
        optimizer.zero_grad()
        objective.end_update(table)
        with torch.no_grad():
            history.append(float(objective.loss(hidden, table, wanted).nll / wanted.numel()))
        if update % 20 == 0:
            print(f"update {update}  nll {history[-1]:.3f}  {objective.report()}")
    return history


if __name__ == "__main__":
    main(*sys.argv[1:])
