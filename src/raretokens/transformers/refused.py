"""Settings of transformers' Trainer that an objective would silently overlook, or be overlooked by."""

from transformers import Trainer

from raretokens.errors import UserError

ADAMW = ("adamw_torch", "adamw_torch_fused")
WHOLE, UNSEEN = "none; the table must be whole", "false; what the table meets could not be seen"


def check(trainer: Trainer, has_own_optimizer: bool) -> None:
    """Raise UserError with the first of them. has_own_optimizer: the objective changes AdamW."""
    asked = trainer.args
    refused = {
        "label_smoothing_factor": (asked.label_smoothing_factor != 0, "0; smoothing is the facts' label_smoothing"),
        "compute_loss_func": (trainer.compute_loss_func is not None, "none; the loss is the objective's"),
        "model_init": (trainer.model_init is not None, "none; an objective remembers the training of one model"),
        "fsdp": (trainer.is_fsdp_enabled, WHOLE),
        "deepspeed": (trainer.is_deepspeed_enabled, WHOLE),
        "parallelism_config": (getattr(asked, "parallelism_config", None) is not None, WHOLE),
        "n_gpu": (asked.n_gpu > 1, "1 in a process; torchrun starts a process for each"),
        "torch_compile": (asked.torch_compile, UNSEEN),
        "use_liger_kernel": (getattr(asked, "use_liger_kernel", False), UNSEEN),
        "auto_find_batch_size": (asked.auto_find_batch_size, "false; an update would be counted twice"),
        "optim": (
            has_own_optimizer and asked.optim not in ADAMW,
            f"{' or '.join(ADAMW)}; the objective changes AdamW",
        ),
        "optimizers": (has_own_optimizer and trainer.optimizer is not None, "none; the objective has an optimizer"),
    }
    for name, (is_asked, allowed) in refused.items():
        if is_asked:
            raise UserError(f"{name} is not allowed with an objective: should be {allowed}")
