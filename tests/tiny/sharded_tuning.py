"""Trainings with the Trainer of transformers on two processes, over which FSDP2 shards the model. Each is stopped and resumed.

python -m tiny.sharded_tuning FOLDER KIND-NAME-CHECKPOINT[-bf16] ..., on two processes     # FOLDER/KIND-NAME-CHECKPOINT.pt
"""

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers
from accelerate import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

from raretokens.loop.row_shard import RowShard
from tiny import fine_tuning as tiny
from tiny import served

STEPS, SAVED = 6, 3
MIXED = {"bf16": True, "dtype": torch.float32}


class Sharded(tiny.Ours):
    """Accelerate shards on accelerators alone, and on CPUs it would copy the model. All else is as on accelerators."""

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        state, self.gathered = self.accelerator.state, 0  # gathered: how often a loss gathered the output embedding
        PartialState._shared_state["distributed_type"] = state.distributed_type = DistributedType.FSDP
        state.fsdp_plugin, self.is_fsdp_enabled = FullyShardedDataParallelPlugin(**self.args.fsdp_plugin_args), True
        if state.mixed_precision != "no":
            state.fsdp_plugin.set_mixed_precision(state.mixed_precision)

    def compute_loss(self, *arguments: Any, **settings: Any) -> Any:
        gather = RowShard.whole

        def whole(shard: RowShard) -> torch.Tensor:
            self.gathered += shard.matrix is self.output.weight
            return gather(shard)

        with patch.object(RowShard, "whole", whole):
            return super().compute_loss(*arguments, **settings)


class Stop(transformers.TrainerCallback):
    def on_step_end(self, _arguments: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = state.global_step == SAVED


def trainer(folder: Path | str, kind: str, name: str, stored: str = "", **settings: Any) -> Any:
    """stored: how a model that is sharded over two processes is saved; without it, one process trains. Activation checkpointing
    is on for gptj, and the layers of gpt2 with mle are no units of their own."""
    given = {"micro_batches": 2, "dtype": torch.float64, "max_steps": STEPS, **settings}
    if stored:
        again: dict[str, Any] = {"activation_checkpointing": kind == "gptj"}
        again |= {"auto_wrap_policy": "NO_WRAP"} if (kind, name) == ("gpt2", "mle") else {}
        shards = {"fsdp": True, "fsdp_config": {"version": 2, "state_dict_type": stored, **again}}
        given |= {**shards, "processes": 2, "ours": Sharded, "save_strategy": "steps", "save_steps": SAVED}
    return tiny.trainer(folder, kind, name, **given)


def found(trained: Any) -> dict[str, Any]:
    """Return what a training gives on any number of processes."""
    metrics = {name: value for name, value in trained.evaluate().items() if name == "eval_loss" or "ppl" in name}
    weights = {
        name.replace("_checkpoint_wrapped_module.", ""): getattr(value, "full_tensor", lambda value=value: value)()
        for name, value in tiny.weights(trained).items()
    }
    return {"losses": tiny.losses(trained), "metrics": metrics, "weights": weights, "objective": trained.loop.state_dict()}


def main(folder: str, *cases: str) -> None:
    torch.set_num_threads(1)
    for case in cases:
        place = Path(folder) / case
        kind, name, stored, *mixed = case.split("-")
        stopped, resumed = (trainer(place, kind, name, stored, **(MIXED if mixed else {})) for _ in range(2))
        stopped.add_callback(Stop())
        stopped.train()
        resumed.train(resume_from_checkpoint=str(place / f"checkpoint-{SAVED}"))
        held = [resumed.output.weight, *resumed.optimizer.optimizer.state[resumed.output.weight].values()]
        sizes = [getattr(one, "to_local", lambda one=one: one)().numel() for one in held]
        ended = {**found(resumed), "sizes": sizes, "gathered": resumed.gathered}
        if resumed.is_world_process_zero():
            torch.save(ended, f"{place}.pt")
    served.end()


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main(*sys.argv[1:])
