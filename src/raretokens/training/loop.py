"""The training loop: one update can be read on one screen."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor, nn

from raretokens.config import Training, UserError
from raretokens.training.batches import Batch, Blocks, Pairs
from raretokens.training.loading import Prepared, Updates, loaded
from raretokens.training.machine import Machine
from raretokens.training.objective import Objective
from raretokens.training.outputs import Checkpoint, Outputs, average
from raretokens.training.progress import Progress
from raretokens.training.schedule import learning_rate
from raretokens.training.speed import Speed
from raretokens.training.state import Folder

ADAM = {"betas": (0.9, 0.98), "eps": 1e-8}
SAVE_TOGETHER = 500  # updates between two saves of several processes


@dataclass
class Trainer:
    """Trains `model` with `objective`; both may live on several processes, which share every update."""

    name: str
    model: nn.Module
    objective: Objective
    training: Training
    updates: Blocks | Pairs
    validation: Blocks | Pairs
    folder: Folder
    machine: Machine
    accelerator: Accelerator
    outputs: Outputs
    flops_per_token: float = 0.0
    update: int = 0
    log: list[dict] = field(default_factory=list)
    kept: list[Checkpoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = self.model.table
        self.objective.to(self.accelerator.device)
        rest = [parameter for parameter in self.model.parameters() if parameter is not self.table]
        groups = [{"params": [self.table], "table": True}, {"params": rest, "table": False}]
        optimizer = self.objective.optimizer(groups, lr=0.0, weight_decay=self.training.weight_decay, **ADAM)
        self.wrapped, self.optimizer = self.accelerator.prepare(self.model, optimizer)
        self._restore()

    def run(self) -> dict[str, float | None]:
        """Train to the last update, validating and saving on the way; returns facts about the speed."""
        is_main = self.accelerator.is_main_process
        speed = Speed(self.flops_per_token, self.accelerator.num_processes)
        last, every = self.training.updates, self.machine.report_seconds
        progress = Progress(self.name, last, self.update, every, speed, is_main)
        saved = progress.start
        if self.update == 0:
            self.folder.keep_table(0, self.table)
        for prepared in self._prepared(range(self.update, last)):
            self.folder.check_parent()
            row, tokens = self._one_update(prepared)
            self.update += 1
            if self.update % self.training.snapshot_every == 0 or self.update == last:
                self.folder.keep_table(self.update, self.table)
            if self._due() or self.update == last:
                row["valid_nll"] = self._validate()
                self._keep(row["valid_nll"])
                progress.say(f"update {self.update}  validation NLL {row['valid_nll']:.4f}")
            self.log.append(row)
            if progress.step(self.update, tokens, row["loss"], row["nll"]):
                self.outputs.publish(self.log, self.kept)
            if self._save_due(progress.last, saved):
                saved = progress.last
                self._save()
        return speed.facts()

    def _prepared(self, numbers: range) -> Iterator[Prepared]:
        main = self.accelerator
        updates = Updates(
            self.updates, len(self.table), self.machine.micro_batch, main.process_index, main.num_processes
        )
        return loaded(updates, numbers, self.machine.workers, main.device)

    def _one_update(self, prepared: Prepared) -> tuple[dict, int]:
        device, tokens = self.accelerator.device, int(prepared.counts.sum())
        self.objective.begin_update(prepared.counts.to(device, non_blocking=True))
        # The sum over all processes divided by the update's tokens: independent of micro-batches and of processes.
        share = self.accelerator.num_processes / tokens
        sums, penalty = torch.zeros(2, device=device), None
        for number, batch in enumerate(prepared.batches, start=1):
            last = number == len(prepared.batches)
            with nullcontext() if last else self.accelerator.no_sync(self.wrapped):
                loss, nll = self._losses(self.wrapped, batch)
                sums += torch.stack((loss.detach(), nll)).float()
                total = loss * share
                if last:
                    penalty = self.objective.penalty(self.table)
                    total = total if penalty is None else total + penalty
                self.accelerator.backward(total)
        rate = self._step()
        loss, nll = (self.accelerator.reduce(sums, "sum") / tokens).tolist()
        loss += 0.0 if penalty is None else float(penalty.detach())
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"{self.name}: the loss of update {self.update + 1} is {loss}; lower the learning rate"
            )
        row = {
            "update": self.update + 1,
            "loss": loss,
            "nll": nll,
            "lr": rate,
            **self.objective.report(),
            "valid_nll": None,
        }
        return row, tokens

    def _losses(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        device = self.accelerator.device
        with self.accelerator.autocast():
            hidden = model(*(ids.to(device, non_blocking=True) for ids in batch.inputs))
            return self.objective.loss(hidden, self.table, batch.targets.to(device, non_blocking=True))

    def _step(self) -> float:
        rate = learning_rate(self.update + 1, self.training.peak_lr, self.training.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        frozen = self.objective.frozen_rows()
        if frozen is not None:
            # Gradient zero keeps the moments zero; putting the rows back undoes the decoupled weight decay, to the bit.
            self.table.grad[frozen] = 0.0
            before = self.table.detach()[frozen]
        self.optimizer.step()
        if frozen is not None:
            self.table.detach()[frozen] = before
        self.optimizer.zero_grad()
        self.objective.end_update(self.table)
        return rate

    def _due(self) -> bool:
        every = self.training.validate_every
        return self.update % (self.updates.updates_per_epoch if every == "epoch" else every) == 0

    @torch.no_grad()
    def _validate(self, is_shared: bool = True) -> float:
        """Mean NLL of the validation text, natural logarithm, per target token; is_shared: all processes take part."""
        rank, processes = (self.accelerator.process_index, self.accelerator.num_processes) if is_shared else (0, 1)
        self.model.eval()
        sums = torch.zeros(2, dtype=torch.float64)  # NLL, tokens
        for batch in islice(self.validation.everything(self.machine.micro_batch), rank, None, processes):
            nll = self._losses(self.model, batch)[1].double().cpu()
            sums += torch.stack((nll, (batch.targets != self.objective.facts.pad).sum().double()))
        self.model.train()
        if is_shared:
            sums = self.accelerator.reduce(sums.to(self.accelerator.device), "sum")
        return float(sums[0] / sums[1])

    def _keep(self, value: float) -> None:
        found = Checkpoint(self.update, value)
        if self.training.keep == "best":
            kept = [min([*self.kept, found], key=lambda item: item.valid_nll)]
        elif self._due() or not self.kept:
            kept = [*self.kept, found][-self.training.keep :]
        else:  # the end of training, in the middle of an epoch: the mean is that of whole ones
            return
        if found in kept:
            self.folder.keep_weights(self.update, self.model.state_dict())
        self.kept = kept

    def _save_due(self, now: float, saved: float) -> bool:
        # Several processes save their states together, which clocks cannot tell them to do.
        every = self.machine.save_updates or (SAVE_TOGETHER if self.accelerator.num_processes > 1 else 0)
        return self.update % every == 0 if every else now - saved > self.machine.save_seconds

    def _save(self) -> None:
        cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
        random = gather_object([(torch.get_rng_state(), cuda)])  # of every process; all else is the same in each
        if not self.accelerator.is_main_process:
            return
        self.folder.save(
            {
                "update": self.update,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "objective": self.objective.state_dict(),
                "log": self.log,
                "kept": [tuple(item) for item in self.kept],
                "random": random,
            }
        )
        self.folder.forget_weights(item.update for item in self.kept)

    def _restore(self) -> None:
        state = self.folder.restore()
        found = gather_object([0 if state is None else state["update"]])
        if len(set(found)) > 1:
            raise UserError(
                f"{self.folder.path}: processes see different states in it; all nodes must share this folder"
            )
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.objective.load_state_dict(state["objective"])
        self.update, self.log, self.kept = state["update"], state["log"], [Checkpoint(*item) for item in state["kept"]]
        rank = self.accelerator.process_index
        if rank < len(state["random"]):  # a process more than before goes on with its own seed
            cpu, cuda = state["random"][rank]
            torch.set_rng_state(cpu)
            if cuda is not None:
                torch.cuda.set_rng_state(cuda)

    def finish(self) -> None:
        """Write the weights that are kept, and their validation NLL."""
        if not self.accelerator.is_main_process:
            return
        weights = average([self.folder.weights(item.update) for item in self.kept])
        self.model.load_state_dict(weights)
        known = self.kept[0].valid_nll if len(self.kept) == 1 else None
        self.outputs.publish(self.log, self.kept, self._validate(is_shared=False) if known is None else known)
        self.outputs.weights(weights, self.folder.tables())
