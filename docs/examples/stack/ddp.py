"""An objective on several processes: a small model in DistributedDataParallel. Loss and weights are those of one process.

torchrun --standalone --nproc-per-node 2 docs/examples/stack/ddp.py [objective] [file for the weights]
"""

import os
import sys

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from raretokens import Loop, build, facts

N, D, BATCH, LENGTH, MICRO_BATCHES, STEPS = 500, 64, 8, 32, 2, 20  # BATCH: of all processes


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(N, D), nn.GRU(D, D, batch_first=True)
        nn.init.normal_(self.embedding.weight, std=D**-0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(self.embedding(inputs))[0]


def main(name: str = "agg", file: str | None = None) -> None:
    if "RANK" in os.environ:  # torchrun
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)  # the same in all processes
    text = (torch.rand(40_000) ** 4 * N).long()  # falling frequency
    model = Model().to(device)
    table = model.embedding.weight  # input embedding and softmax weight
    wrapped = DistributedDataParallel(model) if processes > 1 else model
    steps_per_epoch = len(text) // (MICRO_BATCHES * BATCH * LENGTH)
    loop = Loop(build(name, facts(torch.bincount(text, minlength=N), width=D, steps_per_epoch=steps_per_epoch)), table)
    optimizer = loop.optimizer(model.parameters(), lr=3e-3, weight_decay=0.01)
    for step in range(STEPS):
        starts = torch.randint(0, len(text) - LENGTH - 1, (MICRO_BATCHES, BATCH, 1))
        windows = text[starts + torch.arange(LENGTH + 1)]  # micro-batches x sequences x positions + 1
        windows = windows[:, rank::processes].to(device)  # the share of this process
        loop.begin(windows[..., 1:])  # sums the counts of all processes
        losses = []
        for batch in windows:
            losses.append(loop.loss(wrapped(batch[:, :-1]), batch[:, 1:]))
            losses[-1].backward()  # averages the gradients of all processes
        loop.step(optimizer)
        optimizer.zero_grad()
        total = torch.stack(losses).detach().sum() / processes
        if processes > 1:
            distributed.all_reduce(total)
        if rank == 0 and step % 5 == 0:
            print(f"step {step}  loss {total:.6f}", flush=True)
    if rank == 0 and file is not None:
        torch.save({"model": model.state_dict(), "objective": loop.state_dict()}, file)
    if processes > 1:
        distributed.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
    # The wrapped model is freed by now. As the last owner of the group, its destructor could deadlock with gloo's threads.
    if distributed.is_initialized():
        distributed.destroy_process_group()
