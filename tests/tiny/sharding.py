"""Trainings of a tiny model, by one process or by several that shard it with FSDP2."""

import contextlib
import copy
import os
import socket
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.nn.utils import clip_grad_norm_
from torch.utils._python_dispatch import TorchDispatchMode

from raretokens import Head, Loop, Objective, train_only_rows
from raretokens.loop import sharded as rounds
from tiny.update import PAD, SPECIALS, D, N, build

STEPS, RESUMED_AFTER, MICRO_BATCHES, SEQUENCES, LENGTH = 5, 3, 2, 4, 7


class Case(NamedTuple):
    name: str
    options: dict = {}
    tied: bool = True
    parallel: bool = False  # vocabulary_parallel
    bias: bool = False  # of the head, with a scale and soft-cap of the logits
    weighted: bool = False  # each position has a weight


class Model(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.looked_up = nn.Embedding(N, D)
        self.body = nn.Linear(D, D)
        self.head = self.looked_up if case.tied else nn.Linear(D, N, bias=case.bias)

    def forward(self, ids: Tensor) -> Tensor:
        return self.body(self.looked_up(ids)).tanh() * 2


class NoWholeMatrix(TorchDispatchMode):
    """Context in which no tensor has the size of the embedding matrix. Gradients of the loss are computed in it as well."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple) else (result,):
            assert not isinstance(tensor, Tensor) or tensor.shape != (N, D), function
        return result


class Custom(Objective):
    """An objective with rules of its own, which act on the whole matrix."""

    def penalty(self, weight: Tensor) -> Tensor:
        return 0.1 * (weight @ weight.T).square().mean()

    @torch.no_grad()
    def end_step(self, weight: Tensor) -> None:
        weight.div_(weight.norm(dim=1, keepdim=True).clamp(min=1.0))


def objective_of(case: Case, embedding: Tensor) -> Objective:
    if case.name == "only_rows":
        return train_only_rows(embedding, [5, 8, 21], pad=PAD)
    if case.name == "custom":
        return Custom(build("mle", {}).facts)
    return build(case.name, case.options, steps_per_epoch=3)


def batches(step: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets: micro-batches x sequences x positions. The sequences have different lengths, one has no target."""
    random = torch.Generator().manual_seed(step)
    ids = SPECIALS + (torch.rand(MICRO_BATCHES, SEQUENCES, LENGTH + 1, generator=random) ** 2 * (N - 2 - SPECIALS)).long()
    inputs, targets = ids[..., :-1], ids[..., 1:].clone()
    targets[0, 1, 3:] = PAD
    targets[1, 2] = PAD
    return inputs, targets


def start(case: Case, shards: bool) -> tuple[Model, Loop, torch.optim.Optimizer]:
    model = Model(case)
    if shards:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
        for module in (model.body, *([] if case.tied else [model.head]), model):  # a unit that FSDP2 itself never gathers
            fully_shard(module, mesh=mesh)
    head = Head(scale=0.7, softcap=3.0) if case.bias else Head()
    looked_up = None if case.tied else model.looked_up
    objective = objective_of(case, model.head.weight)
    more = {"vocabulary_parallel": True} if case.parallel and shards else {}
    loop = Loop(objective, model.head, head=head, input_embedding=looked_up, **more)
    return model, loop, loop.optimizer(model.parameters(), lr=0.02, weight_decay=0.1)


def train(case: Case, shards: bool = False) -> dict[str, Tensor]:
    """Return the weights and the NLL of a batch after STEPS steps with clipping, which several processes interrupt and resume."""
    rank, size = (distributed.get_rank(), distributed.get_world_size()) if shards else (0, 1)
    model, loop, optimizer = start(case, shards)
    for step in range(STEPS):
        if shards and step == RESUMED_AFTER:
            states = copy.deepcopy([part.state_dict() for part in (model, loop, optimizer)])
            model, loop, optimizer = start(case, shards)
            for part, state in zip((model, loop, optimizer), states, strict=True):
                part.load_state_dict(state)
        inputs, targets = (part[:, rank::size] for part in batches(step))
        factors = torch.rand(MICRO_BATCHES, SEQUENCES, LENGTH, generator=torch.Generator().manual_seed(step))[:, rank::size]
        loop.begin(targets)
        for number, (ids, wanted) in enumerate(zip(inputs, targets, strict=True)):
            if shards:
                model.set_requires_gradient_sync(case.parallel or number + 1 == MICRO_BATCHES)
            hidden = model(ids)
            is_spread = shards and case.parallel and case.name != "custom"  # whose penalty needs the whole matrix
            with NoWholeMatrix() if is_spread else contextlib.nullcontext():
                loss = loop.loss(hidden, wanted, position_weight=factors[number] if case.weighted else None)
            loss.backward()
        with loop.stepping():
            clip_grad_norm_(model.parameters(), 0.3)
            optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        nll = loop.nll(model(inputs[0]), targets[0])
    if shards:
        distributed.all_reduce(nll)
    weights = {"nll": nll} | {name: weight.detach() for name, weight in model.named_parameters()}
    weights |= {name: weight.detach() for name, weight in loop.objective.named_parameters()}
    return {name: weight.full_tensor() if hasattr(weight, "full_tensor") else weight for name, weight in weights.items()}


def one_of_many(rank: int, size: int, port: int, cases: list[Case], results: Path) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    distributed.init_process_group("gloo", rank=rank, world_size=size)
    rounds.CHUNK = 4 * size  # several rounds, in the last of which some processes have no targets
    ended = []
    for case in cases:
        try:
            ended.append(train(case, shards=True))
        except Exception as error:
            error.add_note(f"case {case}")
            raise
    torch.save(ended, results / f"{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


def sharded(size: int, cases: list[Case], results: Path) -> list[list[dict[str, Tensor]]]:
    """Return what each of `size` processes has after each case."""
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.get_context("forkserver").set_forkserver_preload(["torch.distributed.fsdp", "torch.distributed.tensor"])
    multiprocessing.start_processes(one_of_many, (size, port, cases, results), nprocs=size, start_method="forkserver")
    return [torch.load(results / f"{rank}.pt") for rank in range(size)]
