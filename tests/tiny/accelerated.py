"""A loop with Accelerate, on one process or on two that share every update: accelerated.py FILE keeps the weights."""

import sys

import torch
from accelerate import Accelerator
from torch import nn

from raretokens import Loop
from tiny import served
from tiny.update import D, N, build, update


def main(file: str) -> None:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(2)
    accelerator, model = Accelerator(cpu=True), nn.Sequential(nn.Embedding(N, D), nn.Linear(D, D))
    table = model[0].weight
    loop = Loop(build("agg", {}), table, accelerator=accelerator)
    wrapped, optimizer = accelerator.prepare(model, loop.optimizer(model.parameters(), lr=0.01, weight_decay=0.1))
    rank, processes = accelerator.process_index, accelerator.num_processes
    for seed in range(10):
        _, _, targets, _ = update(seed)
        targets = torch.cat((targets, targets.flip(1)))[rank::processes]
        loop.begin([targets])
        accelerator.backward(loop.loss(wrapped(targets), targets))
        loop.step(optimizer)
        optimizer.zero_grad()
    if accelerator.is_main_process:
        torch.save([weight.detach() for weight in model.parameters()], file)
    if accelerator.num_processes > 1:
        served.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
