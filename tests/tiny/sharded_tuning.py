"""Trainings with the Trainer of transformers on processes that FSDP2 shards a model over, each of them also resumed.

python -m tiny.sharded_tuning FOLDER KIND:NAME:CHECKPOINT ..., on two processes
"""

import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from accelerate import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

from tiny import fine_tuning as tiny
from tiny import served

STEPS, SAVED = 6, 3


class OnCpu:
    """Accelerate shards on accelerators alone, and on CPUs it would copy the model. All else is as on accelerators."""

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        state = self.accelerator.state
        PartialState._shared_state["distributed_type"] = state.distributed_type = DistributedType.FSDP
        state.fsdp_plugin, self.is_fsdp_enabled = FullyShardedDataParallelPlugin(**self.args.fsdp_plugin_args), True


class Sharded(OnCpu, tiny.Ours):
    pass


def trainer(folder: Path | str, kind: str, name: str, stored: str = "FULL_STATE_DICT", processes: int = 2, **settings: Any) -> Any:
    given = {"micro_batches": 2, "dtype": torch.float64, "max_steps": STEPS, **settings}
    if processes > 1:
        given |= {"fsdp": True, "fsdp_config": {"version": 2, "state_dict_type": stored}, "ours": Sharded}
        given |= {"save_strategy": "steps", "save_steps": SAVED}
    return tiny.trainer(folder, kind, name, processes=processes, **given)


def found(trained: Any) -> dict[str, Any]:
    """Return what a training gives on any number of processes."""
    metrics = {name: value for name, value in trained.evaluate().items() if name == "eval_loss" or "ppl" in name}
    weights = {name: getattr(value, "full_tensor", lambda value=value: value)() for name, value in tiny.weights(trained).items()}
    return {"losses": tiny.losses(trained), "metrics": metrics, "weights": weights, "objective": trained.loop.state_dict()}


def main(folder: str, *cases: str) -> None:
    torch.set_num_threads(1)
    for case in cases:
        place = Path(folder) / case.replace(":", "-")
        whole = trainer(place, *case.split(":"))
        whole.train()
        resumed = trainer(place, *case.split(":"))
        resumed.train(resume_from_checkpoint=str(place / f"checkpoint-{SAVED}"))
        both = [found(trained) for trained in (whole, resumed)]
        rows = [weight.to_local().shape[0] for weight in (resumed.output.weight, resumed.output.weight.grad) if weight is not None]
        if whole.is_world_process_zero():
            torch.save({"both": both, "rows": rows}, f"{place}.pt")
    served.end()


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main(*sys.argv[1:])
