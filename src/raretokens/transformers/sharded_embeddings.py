"""Input and output embedding of a transformers model, sharded by rows for a training with FSDP2.

Accelerate shards all other weights. Under its own rules, a model would gather the output embedding to compute logits, and a tied
embedding with several modules would fail.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from raretokens.errors import UserError
from raretokens.loop.loop import Loop
from raretokens.loop.row_shard import RowShard, is_sharded, whole
from raretokens.loop.sharded import check_rows, needs_whole_matrix
from raretokens.loss.objective import Objective
from raretokens.transformers.model_loss import OutputEmbedding


class Rows(nn.ParameterList):
    """Parameters that Accelerate leaves as they are when it shards a model."""


def check_fsdp(accelerator: Any, model: nn.Module) -> None:
    """Raise UserError for the first FSDP setting that is incompatible with an objective."""
    from torch.distributed.fsdp import CPUOffloadPolicy
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

    plugin = accelerator.state.fsdp_plugin
    policy = getattr(plugin.auto_wrap_policy, "func", plugin.auto_wrap_policy)
    by_size, checkpoints = policy is size_based_auto_wrap_policy, plugin.activation_checkpointing and policy is None
    refused = {
        "version": (plugin.fsdp_version != 2, "2; FSDP1 has no sharded rows"),
        "cpu_offload": (isinstance(plugin.cpu_offload, CPUOffloadPolicy), "false; weights stay on the device of their training"),
        "cpu_ram_efficient_loading": (plugin.cpu_ram_efficient_loading, "false; each process loads the weights"),
        "auto_wrap_policy": (by_size, "TRANSFORMER_BASED_WRAP or NO_WRAP; Accelerate would shard lists of layers"),
        "activation_checkpointing": (checkpoints, "false with NO_WRAP"),
        "ignored_modules": (not _is_own(plugin.ignored_modules), "none; freeze weights by requires_grad"),
    }
    for name, (is_set, allowed) in refused.items():
        if is_set:
            raise UserError(f"fsdp_config {name} is not allowed with an objective: should be {allowed}")
    if accelerator.mixed_precision not in ("no", "bf16"):
        raise UserError(f"{accelerator.mixed_precision} is not allowed with an objective and FSDP: should be bf16, or float32")
    if getattr(accelerator, "parallelism_config", None) is not None:
        raise UserError("parallelism_config is not allowed with an objective: should be none; fsdp=True (FSDP2) shards the model")
    if hasattr(model, "peft_config"):
        raise UserError("PEFT is not allowed with an objective and FSDP: should be a model without adapters, or no FSDP")


def sharded_loop(objective: Objective, output: OutputEmbedding, accelerator: Any) -> Loop:
    """Shard the embeddings of a whole model by rows, and return the Loop of the sharded output embedding.

    A module that has one of the matrices gathers it for its own forward pass alone. No process has the whole output embedding
    during the loss, unless the objective's loss needs it.
    """
    looked_up = output.model.get_input_embeddings()
    shard_rows(output, looked_up, accelerator)
    check_rows(RowShard(output.weight))
    is_parallel = not needs_whole_matrix(objective)
    return Loop(
        objective, output.weight, input_embedding=getattr(looked_up, "weight", None), vocabulary_parallel=is_parallel
    )


def shard_rows(output: OutputEmbedding, looked_up: nn.Module | None, accelerator: Any) -> None:
    """Replace both embedding matrices and the bias of the output embedding by their rows on this process."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    looked_up_as = torch.bfloat16 if accelerator.mixed_precision == "bf16" else None
    weights = (output.weight, getattr(output.module, "bias", None), getattr(looked_up, "weight", None))
    shards: dict[nn.Parameter, nn.Parameter] = {}
    for weight in weights:
        if isinstance(weight, nn.Parameter) and weight not in shards:
            matrix = weight.detach().to(accelerator.device)
            if weight.requires_grad and accelerator.mixed_precision != "no":  # as Accelerate stores all trained weights
                matrix = matrix.float()
            shards[weight] = nn.Parameter(distribute_tensor(matrix, mesh, [Shard(0)]), requires_grad=weight.requires_grad)
    for module in output.model.modules():
        names = [name for name, weight in module.named_parameters(recurse=False, remove_duplicate=False) if weight in shards]
        for name in names:
            setattr(module, name, shards[getattr(module, name)])
        if names:
            module.forward = _gathering(module, names, output, looked_up_as)


def leave_rows(accelerator: Any, model: nn.Module) -> None:
    """Have Accelerate, whose settings all trainers of a process share, leave the embeddings of this model as they are."""
    accelerator.state.fsdp_plugin.ignored_modules = [Rows(weight for weight in model.parameters() if is_sharded(weight))]


def _is_own(ignored: Any) -> bool:
    return ignored is None or (isinstance(ignored, list) and len(ignored) == 1 and isinstance(ignored[0], Rows))


def _gathering(
    module: nn.Module, names: list[str], output: OutputEmbedding, looked_up_as: torch.dtype | None
) -> Callable[..., Any]:
    """Return the module's `forward` with whole parameters of these names, in the dtype of the states, or that of look-ups."""
    original = module.forward

    @wraps(original)
    def forward(*arguments: Any, **settings: Any) -> Any:
        if module is output.module and output.omits_logits:
            return arguments[0][..., :1].clone()  # read by nothing
        own = {name: module._parameters[name] for name in names}
        states = [value for value in arguments if isinstance(value, Tensor) and value.is_floating_point()]
        dtype = states[0].dtype if states else looked_up_as
        try:
            for name, weight in own.items():
                gathered = whole(weight)
                module._parameters[name] = gathered if dtype is None else gathered.to(dtype)  # type: ignore[assignment]
            return original(*arguments, **settings)
        finally:
            module._parameters.update(own)

    return forward
