"""The Trainer of transformers with an objective for its loss."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback
from transformers.utils import logging

from raretokens.errors import UserError
from raretokens.loss.loop import Loop
from raretokens.loss.objective import Objective
from raretokens.transformers import by_group, refused
from raretokens.transformers.output_table import IGNORED, OutputTable, likelihoods

STATE = "objective.pt"  # of a checkpoint
logger = logging.get_logger(__name__)


class ObjectiveTrainer(Trainer):
    """A Trainer that minimises an objective, of a causal or sequence-to-sequence model with an output table.

    objective: of facts that have the table's rows; everything else as of transformers' Trainer. Batches need `labels`, -100 where
    there is no target. An update's loss is the mean over its targets in all micro-batches and processes; its counts, frozen
    rows, penalty, end and optimizer are the objective's, and its state is saved with each checkpoint. Input tables that are not
    the output table train as any other weight. Evaluation gives the mean -log p of a target as `eval_loss` and its exponential by
    frequency group as `eval_ppl_total`, `_freq`, `_med` and `_rare`.

    Raises UserError on settings that an objective cannot be trained with, and on a model whose logits or loss are not known.
    """

    loss_is_scaled_for_ga = True

    def __init__(self, *arguments: Any, objective: Objective, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.model_accepts_loss_kwargs = True  # before loss_is_scaled_for_ga that meant the same
        self.output = OutputTable(self.model)
        looked_up = getattr(self.output.model.get_input_embeddings(), "weight", None)
        self.loop = Loop(objective, self.output.weight, input_table=looked_up)  # `objective` is a name of Trainer's own
        self.groups = by_group.groups(objective.facts)
        self.shifts: bool | None = None  # labels stand beside the position before them; None: not tried so far
        refused.check(self, self._has_own_optimizer())
        self._update, self._is_whole = ExitStack(), False
        self._read: list[Tensor] = []  # sums of each batch of an evaluation
        self._batch: Tensor | None = None
        self.add_callback(_Stepped(self))
        for remark in objective.remarks():
            (logger.warning if remark.startswith("warning") else logger.info)(remark)

    # An update: begin, losses, step.

    def get_batch_samples(self, *arguments: Any) -> tuple[list[Any], Any]:
        """The micro-batches of an update, of which the objective is told."""
        batches, _ = super().get_batch_samples(*arguments)
        self.loop.begin([self._targets(self._inputs(batch)[1]) for batch in batches])
        return batches, torch.tensor(self.loop.targets, device=self.args.device)

    def training_step(self, *arguments: Any, **settings: Any) -> Tensor:
        loss = super().training_step(*arguments, **settings)
        if not self.loop.left:  # before gradients are clipped: those of frozen rows do not count
            self._update.enter_context(self.loop.stepping())
        return loss

    def stepped(self) -> None:
        """After the optimizer's step."""
        self._update.close()

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        given, labels = self._inputs(inputs)
        states, outputs = self.output.states(model, given, is_whole=self._is_whole)
        targets = self._targets(labels)
        states = states[:, : targets.shape[1]]
        self.loop.head = self.output.head
        with self.accelerator.autocast():
            if torch.is_grad_enabled():
                looked_up = [given[name] for name in ("input_ids", "decoder_input_ids") if name in given]
                loss = self.loop.loss(states, targets, looked_up)
            else:
                loss = self._evaluated(states, targets)
        return (loss, outputs) if return_outputs else loss

    def _inputs(self, batch: dict[str, Any]) -> tuple[dict[str, Any], Tensor]:
        """What the model is given, and the labels, which it is not."""
        given = {name: value for name, value in self._prepare_inputs(dict(batch)).items() if name != "shift_labels"}
        labels = given.pop("labels", None)
        if labels is None:
            raise UserError("the batches have no labels: collators for language modelling and for Seq2Seq make them")
        if getattr(self.output.model.config, "is_encoder_decoder", False) and "decoder_input_ids" not in given:
            prepare = getattr(self.output.model, "prepare_decoder_input_ids_from_labels", None)
            if prepare is None:
                raise UserError(
                    f"{self.output.name}: the batches need decoder_input_ids: the model makes none of labels"
                )
            given["decoder_input_ids"] = prepare(labels=labels)
        if self.shifts is None:
            with self.accelerator.autocast():
                self.shifts = self.output.shifts(given, labels)
        return given, labels

    def _targets(self, labels: Tensor) -> Tensor:
        """Sequences x positions, beside the first positions of the states; padding as in the facts."""
        targets = labels[:, 1:] if self.shifts else labels
        return targets.masked_fill(targets == IGNORED, self.loop.objective.facts.pad)

    # Evaluation: the likelihood of every target by its group.

    def _evaluated(self, states: Tensor, targets: Tensor) -> Tensor:
        ignored, code = self.loop.objective.facts.pad, self.groups.to(targets.device)
        nll = likelihoods(self.output.head, states, self.output.weight, targets, ignored)
        self._batch = by_group.sums(nll, targets, ignored, code)
        return (self._batch[..., 0].sum() / self._batch[..., 1].sum().clamp(min=1)).float()

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> Any:
        self._is_whole, self._batch = not prediction_loss_only, None
        try:
            predicted = super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        finally:
            self._is_whole = False
        if self._batch is not None:  # of all processes, each sequence once
            self._read.append(self.accelerator.gather_for_metrics(self._batch).sum(0))
        return predicted

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        self._read = []
        output = super().evaluation_loop(dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix)
        if self._read:
            found = by_group.metrics(torch.stack(self._read).sum(0))
            output.metrics.update({f"{metric_key_prefix}_{name}": value for name, value in found.items()})
        return output

    # Optimizer, log, checkpoints.

    def create_optimizer(self, *model: nn.Module) -> torch.optim.Optimizer:
        if self.optimizer is None and self._has_own_optimizer():
            asked, decaying = self.args, set(self.get_decay_parameter_names(self.output.model))
            weights = [(name, weight) for name, weight in self.output.model.named_parameters() if weight.requires_grad]
            groups = [
                {"params": [weight for name, weight in weights if (name in decaying) == decays], "weight_decay": rate}
                for decays, rate in ((True, asked.weight_decay), (False, 0.0))
            ]
            betas = asked.adam_beta1, asked.adam_beta2
            self.optimizer = self.loop.optimizer(groups, lr=asked.learning_rate, betas=betas, eps=asked.adam_epsilon)
        return super().create_optimizer(*model)

    def _has_own_optimizer(self) -> bool:
        return type(self.loop.objective).optimizer is not Objective.optimizer

    def log(self, logs: dict[str, float], *arguments: Any) -> None:
        super().log({**logs, **(self.loop.objective.report() if "loss" in logs else {})}, *arguments)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            torch.save(self.loop.state_dict(), Path(output_dir) / STATE)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = Path(checkpoint) / STATE
        if not path.is_file():
            raise UserError(f"{path}: no such file; what the objective had counted so far would be lost")
        self.loop.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))


class _Stepped(TrainerCallback):
    """Tells the trainer that the optimizer has made its step."""

    def __init__(self, trainer: ObjectiveTrainer) -> None:
        self.trainer = trainer

    def on_optimizer_step(self, *_arguments: Any, **_settings: Any) -> None:
        self.trainer.stepped()
