"""The Trainer of transformers with an objective as its loss, and with perplexity by frequency group in its evaluation."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainerCallback
from transformers.utils import logging

from raretokens.errors import UserError
from raretokens.loop.loop import Loop
from raretokens.loop.sharded import sharded_nll
from raretokens.loss.facts import Facts
from raretokens.loss.logits_objective import head_logits
from raretokens.loss.objective import Objective, read_numbers
from raretokens.transformers.model_loss import IGNORED, ModelLoss, OutputEmbedding, try_model
from raretokens.transformers.sharded_embeddings import check_fsdp, leave_rows, sharded_loop

STATE = "objective.pt"  # file in a checkpoint
ADAMW = ("adamw_torch", "adamw_torch_fused")
NOT_SHARDED = "none; fsdp=True (FSDP2) shards the model"
NOT_FUSED = "false; the states before the output embedding could not be seen"
MAX_POSITIONS = 1024  # positions whose logits are in memory at once
GROUP_NAMES = ("freq", "med", "rare")
FREQUENT = 3 / 8  # share of the types that are not rare; groups of 30, 50 and 20 % if 20 % are rare
logger = logging.get_logger(__name__)


class ObjectiveTrainer(Trainer):
    """A Trainer that minimises an objective, for a causal or sequence-to-sequence model with an output embedding.

    Batches need `labels`, with -100 at positions without a target. Only these positions are padding. A label that equals the
    padding id of the facts is a target, such as an end of text that also pads. The loss of a training step is the mean over its
    targets in all micro-batches and processes. If the model's own loss includes a balancing loss of routers
    (output_router_logits), its mean over the micro-batches is added. A pass over an iterable dataset omits its last
    micro-batches if they are fewer than `gradient_accumulation_steps`. The objective controls counts, frozen rows, penalty,
    step end and optimizer, and each checkpoint contains its state. An input embedding that is not tied to the output embedding
    trains as any other weight. With FSDP2, each process has its rows of both embeddings. Evaluation returns the mean -log p of
    a target as `eval_loss`, and its exponential by frequency group as `eval_ppl_total`, `eval_ppl_freq`, `eval_ppl_med` and
    `eval_ppl_rare`.

    Args:
        objective: an objective whose facts have one entry per row of the output embedding.
        arguments, settings: arguments of transformers.Trainer.

    Raises:
        UserError: if a setting is not allowed with an objective, or the model's logits or loss are not supported.
    """

    loss_is_scaled_for_ga = True

    def __init__(self, *arguments: Any, objective: Objective, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.model_accepts_loss_kwargs = True  # former name of loss_is_scaled_for_ga
        self.output = OutputEmbedding(self.model)
        objective.facts = replace(objective.facts, pad=IGNORED)
        self.loop = self._new_loop(objective)  # Trainer has its own `objective`
        self.groups = group_of_types(objective.facts)
        self.model_loss: ModelLoss | None = None  # found out on the first batch
        _check_settings(self, self._has_own_optimizer())
        self._objective_step, self._is_whole = ExitStack(), False
        self._evaluation_sums: list[Tensor] = []  # one per batch
        self._batch_sums: Tensor | None = None
        self.add_callback(_AfterStep(self._objective_step, self.loop))
        for remark in objective.remarks():
            (logger.warning if remark.startswith("warning") else logger.info)(remark)

    def _new_loop(self, objective: Objective) -> Loop:
        if self.is_fsdp_enabled:
            check_fsdp(self.accelerator, self.output.model)
            return sharded_loop(objective, self.output, self.accelerator)
        looked_up = getattr(self.output.model.get_input_embeddings(), "weight", None)
        return Loop(objective, self.output.weight, input_embedding=looked_up)

    # A training step: begin, losses, optimizer step.

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> tuple[list[Any], Any]:
        """Return the micro-batches of a training step, and pass their targets to the objective first.

        Return none if fewer than `num_batches` are left, because no optimizer step would follow.
        """
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        if len(batches) < num_batches:
            return [], None
        self.loop.begin([self._targets(self._split_inputs(batch)[1]) for batch in batches])
        return batches, torch.tensor(self.loop.targets, device=device)

    def training_step(self, *arguments: Any, **settings: Any) -> Tensor:
        loss = super().training_step(*arguments, **settings)
        if not self.loop.left:  # before gradient clipping, so that gradients of frozen rows do not count
            self._objective_step.enter_context(self.loop.stepping())
        return loss

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, **_: Any) -> Any:
        given, labels = self._split_inputs(inputs)
        states, outputs = self.output.states(model, given, is_whole=self._is_whole)
        targets = self._targets(labels)
        states = states[:, : targets.shape[1]]
        self.loop.head = self.output.head
        with self.accelerator.autocast():
            if torch.is_grad_enabled():
                looked_up = [given[name] for name in ("input_ids", "decoder_input_ids") if name in given]
                loss = self.loop.loss(states, targets, looked_up)
                if self.loop.shard is not None:  # FSDP2 handles the gradients of weights outside the layers from the output on
                    loss = loss + 0.0 * outputs["logits"].sum()
                if self.model_loss.auxiliary:  # mean over the micro-batches of the step
                    loss = loss + outputs["aux_loss"] * (self.model_loss.auxiliary / self.loop.micro_batches)
            else:
                loss = self._evaluation_loss(states, targets)
        return (loss, outputs) if return_outputs else loss

    def _split_inputs(self, batch: dict[str, Any]) -> tuple[dict[str, Any], Tensor]:
        """Return the model's inputs, and the labels, which are not passed to the model."""
        given = {name: value for name, value in self._prepare_inputs(dict(batch)).items() if name != "shift_labels"}
        labels = given.pop("labels", None)
        if labels is None:
            raise UserError("the batches have no labels: use a collator for language modelling or for Seq2Seq")
        if getattr(self.output.model.config, "is_encoder_decoder", False) and "decoder_input_ids" not in given:
            prepare = getattr(self.output.model, "prepare_decoder_input_ids_from_labels", None)
            if prepare is None:
                raise UserError(f"{self.output.name}: the batches need decoder_input_ids: the model cannot make them from labels")
            given["decoder_input_ids"] = prepare(labels=labels)
        if self.model_loss is None:
            with self.accelerator.autocast():
                self.model_loss = try_model(self.output, given, labels)
        return given, labels

    def _targets(self, labels: Tensor) -> Tensor:
        """Return the targets at the first positions of the states (sequences x positions)."""
        return self.model_loss.targets(labels)

    # Evaluation: the negative log-likelihood of every target, by frequency group.

    def _evaluation_loss(self, states: Tensor, targets: Tensor) -> Tensor:
        if self.loop.shard is None:
            nll = _target_nll(self.output, states, targets)
        else:
            nll = sharded_nll(states, self.loop.shard, targets, self.output.head, IGNORED)
        self._batch_sums = _sum_by_group(nll, targets, self.groups.to(targets.device))
        return (self._batch_sums[..., 0].sum() / self._batch_sums[..., 1].sum().clamp(min=1)).float()

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> Any:
        self._is_whole, self._batch_sums = not prediction_loss_only, None
        try:
            predicted = super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        finally:
            self._is_whole = False
        if self._batch_sums is not None:  # gathered from all processes, with each sequence counted once
            self._evaluation_sums.append(self.accelerator.gather_for_metrics(self._batch_sums).sum(0))
        return predicted

    def evaluation_loop(self, *arguments: Any, metric_key_prefix: str = "eval", **settings: Any) -> Any:
        self._evaluation_sums = []
        output = super().evaluation_loop(*arguments, metric_key_prefix=metric_key_prefix, **settings)
        if self._evaluation_sums:
            metrics = _group_metrics(torch.stack(self._evaluation_sums).sum(0))
            output.metrics.update({f"{metric_key_prefix}_{name}": value for name, value in metrics.items()})
        return output

    # Optimizer, log, checkpoints.

    def create_optimizer(self, *model: nn.Module) -> torch.optim.Optimizer:
        if self.is_fsdp_enabled:
            leave_rows(self.accelerator, self.output.model)
        if self.optimizer is None:
            _check_float16(self.output.model)
        if self.optimizer is None and self._has_own_optimizer():
            decaying = set(self.get_decay_parameter_names(self.output.model))
            weights = [(name, weight) for name, weight in self.output.model.named_parameters() if weight.requires_grad]
            groups = [
                {"params": [weight for name, weight in weights if (name in decaying) == decays], "weight_decay": rate}
                for decays, rate in ((True, self.args.weight_decay), (False, 0.0))
            ]
            betas, eps = (self.args.adam_beta1, self.args.adam_beta2), self.args.adam_epsilon
            self.optimizer = self.loop.optimizer(groups, lr=self.args.learning_rate, betas=betas, eps=eps)
        return super().create_optimizer(*model)

    def _has_own_optimizer(self) -> bool:
        return self.loop.has_optimizer_rule

    def log(self, logs: dict[str, float], *arguments: Any) -> None:
        super().log({**logs, **(read_numbers(self.loop.objective.report()) if "loss" in logs else {})}, *arguments)

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
            raise UserError(f"{path}: no such file; the counts of the objective would be lost")
        self.loop.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))


class _AfterStep(TrainerCallback):
    """End the step of the objective after each optimizer step."""

    def __init__(self, objective_step: ExitStack, loop: Loop) -> None:
        self.objective_step, self.loop = objective_step, loop

    def on_train_begin(self, *_arguments: Any, **_settings: Any) -> None:
        """Drop a step of an interrupted training."""
        self.objective_step.pop_all()
        self.loop.in_step = False

    def on_optimizer_step(self, *_arguments: Any, **_settings: Any) -> None:
        self.objective_step.close()


@torch.no_grad()
def _target_nll(output: OutputEmbedding, states: Tensor, targets: Tensor) -> Tensor:
    """Return -log p (natural logarithm) of each target, in the shape of `targets`; 0 where the target is IGNORED."""
    weight, head = output.weight, output.head
    parts = zip(states.flatten(0, 1).split(MAX_POSITIONS), targets.flatten().split(MAX_POSITIONS), strict=True)
    nll = [
        cross_entropy(head_logits(part.to(weight.dtype), weight, head), wanted, ignore_index=IGNORED, reduction="none")
        for part, wanted in parts
    ]
    return torch.cat(nll).view(targets.shape)


def group_of_types(facts: Facts) -> Tensor:
    """Return the frequency group of each type (N, int64): 0 frequent, 1 medium, 2 rare. Rare types come from the facts.

    Fillers and padding are never targets, so they are not counted as types.
    """
    code = torch.full_like(facts.counts, 2)
    rest = (facts.used & ~facts.rare).nonzero().squeeze(1)
    rest = rest[facts.counts[rest].argsort(descending=True, stable=True)]
    code[rest] = (torch.arange(len(rest), device=rest.device) >= round(FREQUENT * len(rest))).to(code.dtype)
    return code


def _sum_by_group(nll: Tensor, targets: Tensor, code: Tensor) -> Tensor:
    """Return sum of -log p and number of targets by group (sequences x groups x 2, float64).

    `nll` and `targets` are sequences x positions. Targets equal to IGNORED are left out. `code` is the group of each type (N).
    """
    kept = targets != IGNORED
    group = code[targets.masked_fill(~kept, 0)]
    chosen = torch.stack([kept & (group == number) for number in range(len(GROUP_NAMES))], dim=1)
    return torch.stack(((chosen * nll.double()[:, None]).sum(2), chosen.sum(2).double()), dim=2)


def _group_metrics(total: Tensor) -> dict[str, float]:
    """Return the mean -log p of a target (loss) and its exponential by group (ppl_<group>). Empty without targets.

    `total` has the sum of -log p and the number of targets of each group (groups x 2).
    """
    both = dict(zip(GROUP_NAMES, total, strict=True)) | {"total": total.sum(0)}
    means = {name: nll / count for name, (nll, count) in both.items() if count}
    found = {f"ppl_{name}": float(mean.exp()) for name, mean in means.items()}
    return {"loss": float(means["total"]), **found} if means else {}


def _check_float16(model: nn.Module) -> None:
    """Raise UserError for trainable float16 weights. The squares of most gradients underflow to 0 in AdamW's second moments."""
    names = [name for name, weight in model.named_parameters() if weight.requires_grad and weight.dtype == torch.float16]
    if names:
        raise UserError(
            f"{names[0]}: trainable weights in float16 become NaN under AdamW; load the model in float32 and set fp16 or bf16"
        )


def _check_settings(trainer: Trainer, has_own_optimizer: bool) -> None:
    """Raise UserError for the first setting that is incompatible with an objective."""
    arguments = trainer.args
    refused = {
        "unmasked_pad": (getattr(trainer.loop.objective, "unmasked_pad", False), "false; labels of padding are -100"),
        "label_smoothing_factor": (arguments.label_smoothing_factor != 0, "0; smoothing is the facts' label_smoothing"),
        "loss_type": (getattr(arguments, "loss_type", "nll") != "nll", "nll; the loss is the objective's"),  # of TRL
        "compute_loss_func": (trainer.compute_loss_func is not None, "none; the loss is the objective's"),
        "model_init": (trainer.model_init is not None, "none; an objective remembers the training of one model"),
        "deepspeed": (trainer.is_deepspeed_enabled, NOT_SHARDED),
        "parallelism_config": (getattr(arguments, "parallelism_config", None) is not None, NOT_SHARDED),
        "n_gpu": (arguments.n_gpu > 1, "1 in a process; torchrun starts a process for each"),
        "torch_compile": (arguments.torch_compile, NOT_FUSED),
        "use_liger_kernel": (getattr(arguments, "use_liger_kernel", False), NOT_FUSED),
        "auto_find_batch_size": (arguments.auto_find_batch_size, "false; a training step would be counted twice"),
        "optim": (
            has_own_optimizer and arguments.optim not in ADAMW,
            f"{' or '.join(ADAMW)}; the objective changes AdamW",
        ),
        "optimizers": (has_own_optimizer and trainer.optimizer is not None, "none; the objective has an optimizer"),
    }
    for name, (is_set, allowed) in refused.items():
        if is_set:
            raise UserError(f"{name} is not allowed with an objective: should be {allowed}")
