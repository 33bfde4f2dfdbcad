"""An objective with FSDP2: a small Transformer whose processes share its weights, and never gather the output embedding.

torchrun --standalone --nproc-per-node 2 docs/examples/stack/fsdp.py [objective] [folder of checkpoints] [last step]

The training resumes from the newest checkpoint, if any, and saves its last step. A checkpoint can be loaded on another number of
processes. Loss and weights are those of one process.
"""

import os
import sys
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from raretokens import Loop, build, facts

N, D, BATCH, LENGTH, MICRO_BATCHES, STEPS = 500, 64, 8, 32, 2, 20  # BATCH: of all processes


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lm_head = nn.Embedding(N, D), nn.Linear(D, N, bias=False)
        layer = {"dim_feedforward": 4 * D, "dropout": 0.0, "batch_first": True, "norm_first": True, "bias": False}
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(D, 4, **layer) for _ in range(2))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.embedding(inputs)
        mask = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1], device=inputs.device)
        for layer in self.layers:
            hidden = layer(hidden, mask, is_causal=True)
        return hidden


def save(folder: Path, step: int, model: Model, optimizer: torch.optim.Optimizer, loop: Loop) -> None:
    weights, moments = get_state_dict(model, optimizer)
    checkpoint.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)  # each process writes its share
    if int(os.environ.get("RANK", "0")) == 0:  # loop.state_dict() is the same on all processes
        torch.save({"step": step, "objective": loop.state_dict()}, folder / "loop.pt")


def load(folder: Path, model: Model, optimizer: torch.optim.Optimizer, loop: Loop) -> int:
    weights, moments = get_state_dict(model, optimizer)
    checkpoint.load({"model": weights, "optimizer": moments}, checkpoint_id=folder)  # into these tensors
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    state = torch.load(folder / "loop.pt", map_location="cpu", weights_only=True)
    loop.load_state_dict(state["objective"])
    return state["step"]


def main(name: str = "agg", folder: str | None = None, steps: int | str = STEPS) -> tuple[Model, Loop]:
    rank, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if "RANK" in os.environ:  # torchrun
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    torch.manual_seed(0)  # the same in all processes
    text = (torch.rand(40_000) ** 4 * N).long()  # falling frequency
    model = Model().to(device)
    if processes > 1:
        mesh = init_device_mesh(device.type, (processes,))
        for module in (*model.layers, model.lm_head, model):
            fully_shard(module, mesh=mesh)
    steps_per_epoch = len(text) // (MICRO_BATCHES * BATCH * LENGTH)
    objective = build(name, facts(torch.bincount(text, minlength=N), width=D, steps_per_epoch=steps_per_epoch))
    loop = Loop(objective, model.lm_head, input_embedding=model.embedding, vocabulary_parallel=processes > 1)
    optimizer = loop.optimizer(model.parameters(), lr=3e-3, weight_decay=0.01)
    complete = [] if folder is None else sorted(Path(folder).glob("*/loop.pt"))
    start = load(complete[-1].parent, model, optimizer, loop) if complete else 0
    for step in range(start, int(steps)):
        starts = torch.randint(
            0, len(text) - LENGTH - 1, (MICRO_BATCHES, BATCH, 1), generator=torch.Generator().manual_seed(step)
        )
        windows = text[starts + torch.arange(LENGTH + 1)]  # micro-batches x sequences x positions + 1
        windows = windows[:, rank::processes].to(device)  # the share of this process
        loop.begin(windows[..., 1:])  # sums the counts of all processes
        losses = []
        for batch in windows:
            losses.append(loop.loss(model(batch[:, :-1]), batch[:, 1:]))
            losses[-1].backward()
        loop.step(optimizer)
        optimizer.zero_grad()
        total = torch.stack(losses).detach().sum() / processes
        if processes > 1:
            distributed.all_reduce(total)
        if rank == 0 and step % 5 == 0:
            print(f"step {step}  loss {total:.6f}", flush=True)
    if folder is not None and start < int(steps):
        save(Path(folder) / f"{steps:0>6}", int(steps), model, optimizer, loop)
    if distributed.is_initialized():
        distributed.barrier()
    return model, loop


if __name__ == "__main__":
    main(*sys.argv[1:])
    # The model is freed by now. As the last owner of the group, its destructor could deadlock with gloo's threads.
    if distributed.is_initialized():
        distributed.destroy_process_group()
