"""AGG, or any objective, in a training loop of one's own: likelihood_loop.py, of which six lines are others.

python docs/examples/plain_loop.py [objective]
"""

import sys

import torch
from torch import nn

from raretokens import Loop, build, facts

N, D, BATCH, LENGTH, MICRO_BATCHES, STEPS = 500, 64, 8, 32, 2, 60


def main(name: str = "agg") -> list[float]:
    torch.manual_seed(0)
    text = (torch.rand(40_000) ** 4 * N).long()  # falling frequency
    table = nn.Parameter(torch.randn(N, D) * D**-0.5)  # input embedding and softmax weight
    model = nn.GRU(D, D, batch_first=True)
    steps_per_epoch = len(text) // (MICRO_BATCHES * BATCH * LENGTH)  # of an epoch
    loop = Loop(build(name, facts(torch.bincount(text, minlength=N), width=D, steps_per_epoch=steps_per_epoch)), table)
    optimizer = loop.optimizer([table, *model.parameters()], lr=3e-3, weight_decay=0.01)
    history = []
    for step in range(STEPS):
        starts = torch.randint(0, len(text) - LENGTH - 1, (MICRO_BATCHES, BATCH, 1))
        windows = text[starts + torch.arange(LENGTH + 1)]  # micro-batches x sequences x positions + 1
        targets = windows[..., 1:]
        history.append(0.0)
        loop.begin(targets)
        for inputs, wanted in zip(windows[..., :-1], targets, strict=True):
            hidden, _ = model(nn.functional.embedding(inputs, table))
            loss = loop.loss(hidden, wanted)
            loss.backward()
            history[-1] += loss.item()
        loop.step(optimizer)
        optimizer.zero_grad()
        if step % 20 == 0:
            print(f"step {step}  loss {history[-1]:.3f}  {steps_per_epoch} steps are an epoch")
    return history


if __name__ == "__main__":
    main(*sys.argv[1:])
