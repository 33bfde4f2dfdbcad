"""The training loop: one update can be read on one screen."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from raretokens.config import Training
from raretokens.training.batches import Batch, Blocks, Pairs
from raretokens.training.machine import Machine
from raretokens.training.objective import Objective
from raretokens.training.outputs import Checkpoint, Outputs, average
from raretokens.training.progress import Progress
from raretokens.training.schedule import learning_rate
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

    def run(self) -> None:
        """Train to the last update, validating and saving on the way."""
        is_main = self.accelerator.is_main_process
        progress = Progress(self.name, self.training.updates, self.update, self.machine.report_seconds, is_main)
        saved = progress.start
        if self.update == 0:
            self.folder.keep_table(0, self.table)
        while self.update < self.training.updates:
            self.folder.check_parent()
            row, tokens = self._one_update()
            self.update += 1
            if self.update % self.training.snapshot_every == 0 or self.update == self.training.updates:
                self.folder.keep_table(self.update, self.table)
            if self._due():
                row["valid_nll"] = self._validate()
                self._keep(row["valid_nll"])
                progress.say(f"update {self.update}  validation NLL {row['valid_nll']:.4f}")
            self.log.append(row)
            if progress.step(self.update, tokens, row["loss"], row["nll"]):
                self.outputs.publish(self.log, self.kept)
            if self._save_due(progress.last, saved):
                saved = progress.last
                self._save()

    def _one_update(self) -> tuple[dict, int]:
        chosen = self.updates.update(self.update)
        counts = torch.from_numpy(self.updates.counts(chosen, len(self.table))).to(self.accelerator.device)
        tokens = int(counts.sum())
        self.objective.begin_update(counts)
        # The sum over all processes divided by the update's tokens: independent of micro-batches and of processes.
        share = self.accelerator.num_processes / tokens
        sums, penalty = torch.zeros(2, device=self.accelerator.device), None
        batches = list(self.updates.cut(self._mine(chosen), self.machine.micro_batch))
        for number, batch in enumerate(batches, start=1):
            last = number == len(batches)
            with nullcontext() if last else self.accelerator.no_sync(self.wrapped):
                loss, nll = self._losses(batch)
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

    def _losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        device = self.accelerator.device
        with self.accelerator.autocast():
            hidden = self.wrapped(*(ids.to(device) for ids in batch.inputs))
            return self.objective.loss(hidden, self.table, batch.targets.to(device))

    def _mine(self, chosen):
        return chosen[self.accelerator.process_index :: self.accelerator.num_processes]

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
        every = self.updates.updates_per_epoch if every == "epoch" else every
        return self.update % every == 0 or self.update == self.training.updates

    @torch.no_grad()
    def _validate(self) -> float:
        """Mean NLL of the validation text, natural logarithm, per target token."""
        self.wrapped.eval()
        nll, tokens = torch.zeros((), dtype=torch.float64), 0
        for batch in self.validation.everything(self.machine.micro_batch):
            nll += self._losses(batch)[1].double().cpu()
            tokens += int((batch.targets != self.objective.facts.pad).sum())
        self.wrapped.train()
        return float(nll) / tokens

    def _keep(self, value: float) -> None:
        weights = {name: tensor.detach().to("cpu", copy=True) for name, tensor in self.model.state_dict().items()}
        checkpoint = Checkpoint(self.update, value, weights)
        if self.training.keep != "best":
            self.kept = [*self.kept, checkpoint][-self.training.keep :]
        elif not self.kept or value < self.kept[0].valid_nll:
            self.kept = [checkpoint]

    def _save_due(self, now: float, saved: float) -> bool:
        # Several processes save their states together, which clocks cannot tell them to do.
        every = self.machine.save_updates or (SAVE_TOGETHER if self.accelerator.num_processes > 1 else 0)
        return self.update % every == 0 if every else now - saved > self.machine.save_seconds

    def _save(self) -> None:
        cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
        self.folder.save(
            {
                "update": self.update,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "objective": self.objective.state_dict(),
                "log": self.log,
                "kept": [tuple(item) for item in self.kept],
                "random": (torch.get_rng_state(), cuda),
            }
        )

    def _restore(self) -> None:
        state = self.folder.restore()
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.objective.load_state_dict(state["objective"])
        self.update, self.log, self.kept = state["update"], state["log"], [Checkpoint(*item) for item in state["kept"]]
        torch.set_rng_state(state["random"][0])
        if state["random"][1] is not None:
            torch.cuda.set_rng_state(state["random"][1])

    def finish(self) -> None:
        """Write the weights that are kept, and their validation NLL."""
        weights = average(self.kept)
        self.model.load_state_dict(weights)
        known = self.kept[0].valid_nll if len(self.kept) == 1 else None
        self.outputs.publish(self.log, self.kept, self._validate() if known is None else known)
        self.outputs.weights(weights, self.folder.tables())
