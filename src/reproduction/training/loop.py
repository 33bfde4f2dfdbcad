"""The training loop of all tasks, with validation, checkpoints and resumable state."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn

from raretokens.errors import UserError
from raretokens.loss.objective import Objective, keep_frozen_rows, read_numbers
from raretokens.loss.terms import SummedLoss
from reproduction.training import rule
from reproduction.training.batches import Batch, Prepared, PreparedSteps, StepData, loaded
from reproduction.training.criterion import Criterion
from reproduction.training.recipe import Execution, Observer, Training
from reproduction.training.rule import is_worse, latest
from reproduction.training.saving import (
    Checkpoint,
    Clock,
    Outputs,
    Saver,
    average,
    kept_after,
    random_states,
    restore_random_states,
)
from reproduction.training.state import State


@dataclass
class Trainer:
    """Training of `model` with `objective`, on one process or several, which share the data of every training step."""

    name: str
    model: nn.Module
    objective: Objective
    training: Training
    data: StepData
    validation: StepData
    state: State
    execution: Execution
    accelerator: Accelerator
    outputs: Outputs
    observer: Observer = field(default_factory=Observer)
    criterion: Criterion | None = None  # None: softmax over the embedding matrix
    step: int = 0  # number of finished training steps
    validated: list[float] = field(default_factory=list)  # validation NLLs that training.stop_window compares
    kept: list[Checkpoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.embedding = self.model.embedding
        self.objective.to(self.accelerator.device)
        self.criterion = self.criterion or Criterion(self.model, self.objective)
        self.rule = rule.build(self.training, self.model, self.objective)
        self.wrapped, self.rule.optimizer = self.accelerator.prepare(self.model, self.rule.optimizer)
        self._restore()

    def run(self) -> None:
        """Train to the last step, with validation and saves of the state."""
        last = self.training.steps
        self.saver = Saver(Clock(self.execution, self.accelerator.num_processes, self.step), self.state, self.outputs)
        self.observer.begins(self.step, last)
        with self.saver:
            if self.step == 0:
                self._keep_snapshot()
            for prepared in self._prepared(range(self.step, self.step if self._is_over() else last)):
                self.state.check_parent()
                if self._run_step(prepared):
                    break

    def _run_step(self, prepared: Prepared) -> bool:
        """Run one training step with its validation, snapshot and save. Return whether training is over."""
        row, targets = self._train_step(prepared)
        self.step += 1
        self.state.log.append(row)
        is_over = self.step == self.training.steps
        if self._validation_due() or is_over:
            with self.rule.kept_weights():
                row["valid_nll"] = self._validate()
                self._check_finite(f"the validation NLL after step {self.step}", row["valid_nll"])
                self._keep(row["valid_nll"])
            self.rule.validated(row["valid_nll"])
            self.validated = latest([*self.validated, row["valid_nll"]], self.training.stop_window or 0)
            is_over = self._is_over()
        if self.step % self.training.snapshot_every == 0 or is_over:
            self._keep_snapshot()
        self.observer.after_step(row, targets)
        if self.saver.due(self.step):
            self._save()
        return is_over

    def _is_over(self) -> bool:
        """Return whether the last step is done, or stop_window ends the training because validation no longer improves."""
        window = self.training.stop_window
        return self.step >= self.training.steps or window is not None and is_worse(self.validated, window)

    def _prepared(self, numbers: range) -> Iterator[Prepared]:
        main, how = self.accelerator, self.execution
        device, finds_rows = main.device.type, main.device.type != "cpu" and self.criterion.reads_rows
        share = main.process_index, main.num_processes
        steps = PreparedSteps(self.data, len(self.embedding), how.micro_batch, *share, device, finds_rows)
        return loaded(steps, numbers, how.workers, main.device)

    def _train_step(self, prepared: Prepared) -> tuple[dict, int]:
        device, targets = self.accelerator.device, prepared.targets
        counts = prepared.counts if self.objective.counts_on_host else prepared.counts.to(device, non_blocking=True)
        self.objective.begin_step(counts)
        # The loss is the sum over all processes divided by the step's targets. It does not depend on the number of
        # micro-batches or processes.
        share = self.accelerator.num_processes / targets
        sums, penalty = torch.zeros(2, device=device), None
        for number, batch in enumerate(prepared.batches, start=1):
            last = number == len(prepared.batches)
            with nullcontext() if last else self.accelerator.no_sync(self.wrapped):
                loss, nll = self._losses(self.wrapped, batch)
                sums += torch.stack((loss.detach(), nll)).float()
                total = loss * share
                if last:
                    penalty = self.objective.penalty(self.embedding)
                    total = total if penalty is None else total + penalty
                self.accelerator.backward(total)
        rate = self._step(targets)
        loss, nll = self.accelerator.reduce(sums, "sum") / targets
        row = {"update": self.step + 1, "loss": loss, "nll": nll, "lr": rate, **self.objective.report()}
        row = read_numbers({**row, "penalty": penalty})  # the only wait for a GPU in a step
        row["loss"] += row.pop("penalty") or 0.0
        self._check_finite(f"the loss of step {self.step + 1}", row["loss"])
        return {**row, "valid_nll": None}, targets

    def _check_finite(self, what: str, value: float) -> None:
        """Raise UserError if the value is not finite, after writing the log so far."""
        if not math.isfinite(value):
            self.saver.wait()
            self.outputs.publish(self.state.log, self.state.log.position(), self.kept)
            hint = f"look at {self.outputs.into / 'log.tsv'} and lower the learning rate"
            raise UserError(f"{self.name}: {what} is {value}; {self.state.left()}; {hint}")

    def _losses(self, model: nn.Module, batch: Batch) -> SummedLoss:
        with self.accelerator.autocast():
            return self.criterion.loss(model, batch.to(self.accelerator.device))

    def _step(self, targets: int) -> float:
        with keep_frozen_rows(self.objective, self.embedding):
            rate = self.rule.step(self.step + 1, targets)
        self.rule.optimizer.zero_grad()
        self.objective.end_step(self.embedding)
        return rate

    def _validation_due(self) -> bool:
        every = self.training.validate_every
        return self.step % (self.data.steps_per_epoch if every == "epoch" else every) == 0

    @torch.no_grad()
    def _validate(self, is_shared: bool = True) -> float:
        """Return the mean NLL per target of the validation text, in nats; is_shared: whether all processes take part."""
        # Each process validates alone if a batch needs the state after the previous batch.
        is_shared = is_shared and not self.validation.in_order
        rank, processes = (self.accelerator.process_index, self.accelerator.num_processes) if is_shared else (0, 1)
        self.model.eval()
        sums = torch.zeros(2, dtype=torch.float64)  # NLL, targets
        with self.criterion.validation():
            for batch in islice(self.validation.everything(self.execution.micro_batch), rank, None, processes):
                nll = self._losses(self.model, batch).nll.double().cpu()
                sums += torch.stack((nll, self.criterion.count(batch).double().cpu()))
        self.model.train()
        if is_shared:
            sums = self.accelerator.reduce(sums.to(self.accelerator.device), "sum")
        return float(sums[0] / sums[1])

    def _keep_snapshot(self) -> None:
        largest = float(self.embedding.detach().half().abs().max())
        self._check_finite(f"an entry of the embedding matrix after step {self.step}", largest)
        self.state.keep_snapshot(self.step, self.embedding)

    def _keep(self, valid_nll: float) -> None:
        """Save the weights if they are among those to keep.

        If `keep` is a number, a last step between two regular validations is kept only if no other weights are.
        """
        if self.training.keep != "best" and self.kept and not self._validation_due():
            return
        checkpoint = Checkpoint(self.step, valid_nll)
        self.kept = kept_after(self.kept, checkpoint, self.training.keep)
        if checkpoint in self.kept:
            self.state.keep_weights(self.step, self.model.state_dict())
            self.state.forget_weights(item.step for item in self.kept)

    def _save(self) -> None:
        self.saver.agree(self.step)
        random, carried = random_states(), self.criterion.state_dict()  # the only parts that differ between processes
        if not self.accelerator.is_main_process:
            return
        self.saver.save(
            {
                "update": self.step,
                "model": self.model.state_dict(),
                "optimizer": self.rule.optimizer.state_dict(),
                "rule": self.rule.state_dict(),
                "criterion": carried,
                "objective": self.objective.state_dict(),
                "validated": self.validated,
                "kept": [tuple(item) for item in self.kept],
                "random": random,
            },
            self.kept,
        )

    def _restore(self) -> None:
        saved = self.state.restore(self.observer.remarked)
        steps = gather_object([0 if saved is None else saved["update"]])
        if len(set(steps)) > 1:
            raise UserError(f"{self.state.path}: processes see different states in it; all nodes must share this folder")
        if saved is None:
            return
        self.model.load_state_dict(saved["model"])
        self.rule.optimizer.load_state_dict(saved["optimizer"])
        self.rule.load_state_dict(saved["rule"])
        self.criterion.load_state_dict(saved["criterion"])
        self.objective.load_state_dict(saved["objective"])
        self.step, self.validated = saved["update"], saved["validated"]
        self.kept = [Checkpoint(*item) for item in saved["kept"]]
        restore_random_states(saved["random"], self.accelerator.process_index)

    def finish(self) -> None:
        """Write the final weights and their validation NLL."""
        if not self.accelerator.is_main_process:
            return
        self.state.verify(item.step for item in self.kept)
        weights = average([self.state.weights(item.step) for item in self.kept])
        self.model.load_state_dict(weights)
        known = self.kept[0].valid_nll if len(self.kept) == 1 else None
        valid_nll = self._validate(is_shared=False) if known is None else known
        self.outputs.publish(self.state.log, self.state.log.position(), self.kept, valid_nll)
        self.outputs.weights(weights, self.state.snapshots())
