"""Counts of the operations of a training step, without memory: FLOPs by type of number, bytes, and calls of each kind.

A forward pass, the loss of maximum likelihood and a backward pass run on tensors of FakeTensorMode, which have shapes but no
numbers. Each call of a kernel is counted with its FLOPs (torch's own formulas) and the bytes that it reads and writes. Where the
code reads a number, the count continues with zero, or with true for a mask. The positions of a recurrent layer call the same
kernels, so those of one position run, and count for all. They are marked, since cuDNN starts or fuses them. Kernels are those of
a GPU with device cuda: fused attention, fused dropout, and the chunks of the loss with their compiled function.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from raretokens import tasks
from raretokens.loss import chunks, gated_cross_entropy
from raretokens.loss.facts import Facts
from raretokens.models.registry import build
from raretokens.objectives.registry import build as build_objective
from raretokens.tokenization.vocabulary import PAD, SPECIALS
from raretokens.training.batches import Batch
from raretokens.training.config import TrainJob
from raretokens.training.criterion import Criterion

aten = torch.ops.aten
LSTM, RNN = torch._VF.lstm, torch._VF.rnn_tanh
# Kernels of the positions of a recurrent layer: cuDNN starts each, or one kernel of cuDNN computes all positions of the layer.
STARTED, FUSED = "started by cuDNN", "fused by cuDNN"
# Largest width that torch has cuDNN fuse in both directions (use_rnn_persist_small_h in aten/src/ATen/native/cudnn/RNN.cpp).
FUSED_LSTM, FUSED_RNN = 128, 256
ATTENTION: dict[Any, Callable[..., int]] = {  # of shapes; torch's formulas have no row for these kernels
    aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda grad, q, k, v, *_, **__: sdpa_backward_flop_count(grad, q, k, v)
    ),
}
IN_PLACE: dict[Any, Any] = {aten.addmm_: aten.addmm}  # nor for this name
CONVOLUTIONS = {aten.convolution, aten._convolution, aten.convolution_backward}
RANDOM = {"bernoulli", "bernoulli_", "native_dropout", "uniform_", "normal_"}
EXPONENTIALS = {
    "exp", "exp_", "_softmax", "_log_softmax", "logsumexp", "tanh", "tanh_", "sigmoid", "gelu", "gelu_backward", "softplus",
    "log_sigmoid_forward", "log", "log_",
}  # fmt: skip
POOLING = {"max_pool2d_with_indices"}
GATHERED = {"embedding", "index", "index_select", "gather"}
SCATTERED = {"scatter_add_", "scatter_add", "scatter_", "index_put_", "_index_put_impl_", "index_add_", "index_put",
             "embedding_dense_backward"}  # fmt: skip
WRITTEN = {"zero_", "fill_", "copy_", "bernoulli_", "uniform_", "normal_"}  # the first argument is only written
FREE = {
    "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "detach", "alias", "_local_scalar_dense",
    "lift_fresh", "_unsafe_view", "_reshape_alias", "_sparse_coo_tensor_with_dims_and_tensors", "is_same_size",
}  # fmt: skip
PASSES = {"logsumexp": 4}  # reads and writes of the whole matrix


class Operation(NamedTuple):
    """One call of a kernel; equal calls are counted together."""

    kind: str  # product, convolution, attention, random, exponential, pooling, rows or other
    type: str  # of the numbers, such as float32
    flops: float
    bytes: float  # read and written
    numbers: int  # of the output; of the input in pooling
    position: str = ""  # STARTED or FUSED for the positions of a recurrent layer


Counts = Counter[Operation]


class Counting(TorchDispatchMode):
    """A context in which every call of a kernel is counted."""

    times = 1  # calls that one call stands for
    position = ""  # of their operations

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counts = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, function._schema.name.removeprefix("aten::")
        if name == "_local_scalar_dense":
            return args[0].dtype == torch.bool
        if name in ("index", "index_put_", "_index_put_impl_"):
            args = (*_without_masks(args[0], args[1]), *args[2:])
        result = function(*args, **kwargs)
        if function.namespace == "aten" and not (function.is_view or name in FREE):
            one = _operation(function, name, args, kwargs, result)._replace(position=self.position)
            self.counts[one] += self.times
        return result


def _without_masks(values: Tensor, indices: list[Tensor | None]) -> tuple[Tensor, list[Tensor | None]]:
    """Replace masks by indices, as many as if the mask were true everywhere. Flatten the first dimensions, which it masks."""
    found: list[Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype == torch.bool:
            values = values.flatten(0, index.dim() - 1)
            index = torch.zeros(index.numel(), dtype=torch.int64, device=index.device)
        found.append(index)
    return values, found


def _operation(function: Any, name: str, args: Any, kwargs: Any, result: Any) -> Operation:
    outputs = [one for one in tree_leaves(result) if isinstance(one, Tensor)]
    inputs = [one for one in tree_leaves((args, {**kwargs, "out": None})) if isinstance(one, Tensor)]
    first = next(iter(outputs or inputs), None)
    kind, packet = "other", function._overloadpacket
    flops = 0.0
    if packet in ATTENTION:
        kind, flops = "attention", ATTENTION[packet](*(getattr(one, "shape", one) for one in args))
    elif (formula := flop_registry.get(IN_PLACE.get(packet, packet))) is not None:
        kind = "convolution" if packet in CONVOLUTIONS else "product"
        flops = formula(*args, **kwargs, out_val=result)
        first = inputs[-1] if inputs else first
    elif name in RANDOM:
        kind = "random"
    elif name in EXPONENTIALS:
        kind = "exponential"
    elif name in POOLING:
        kind = "pooling"
    elif name in GATHERED or name in SCATTERED:
        kind = "rows"
    moved = _bytes(name, args, inputs, outputs)
    numbers = max((one.numel() for one in (inputs if kind == "pooling" else outputs)), default=0)
    return Operation(
        kind, str(first.dtype).removeprefix("torch.") if first is not None else "", float(flops), moved, numbers
    )


def _bytes(name: str, args: Any, inputs: list[Tensor], outputs: list[Tensor]) -> float:
    if name in GATHERED:
        return 2.0 * sum(map(_size, outputs))
    if name in SCATTERED:
        written = 0.0 if name.endswith("_") else sum(map(_size, outputs))
        source = inputs[0] if name == "embedding_dense_backward" else inputs[-1]
        return written + 3.0 * _size(source)
    read = inputs[1:] if name in WRITTEN and isinstance(args[0], Tensor) else inputs
    return float(PASSES.get(name, 1) * sum(map(_size, read)) + sum(map(_size, outputs)))


def _size(tensor: Tensor) -> float:
    """Return the bytes of a tensor; numbers that are repeated by a stride of zero count once."""
    if tensor.is_sparse:
        return _size(tensor._values()) + _size(tensor._indices())
    shown = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return float(math.prod(shown) * tensor.element_size())


def count_batch(job: TrainJob, rows: int, batch: Batch, device: str) -> Counts:
    """Count a forward pass, the loss of maximum likelihood and a backward pass of one micro-batch.

    Args:
        rows: rows of the embedding matrix.
        batch: a micro-batch, of which only the shapes count.
        device: cpu or cuda; this machine need not have it.

    Raises:
        RuntimeError: the computation depends on numbers in a way that no shape determines.
    """
    run, training = job.run, job.training
    with torch.device("meta"):
        model = build(run.architecture, run.shape, rows, training.block)
    criterion = getattr(tasks.load(run.task), "criterion", Criterion)
    precision = torch.autocast("cpu", torch.bfloat16, enabled=training.precision == "bfloat16")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, kernels_of(device):
        model.to_empty(device="cpu")
        objective = build_objective("mle", plain_facts(job, rows, model.embedding.shape[1]))
        inputs = tuple(mode.from_tensor(one) for one in batch.inputs)
        loss_of = criterion(model, objective)
        with Counting() as counting:
            with precision:
                loss = loss_of.loss(model, Batch(inputs, mode.from_tensor(batch.targets))).loss
            loss.backward()
    return counting.counts


def plain_facts(job: TrainJob, rows: int, width: int) -> Facts:
    """Return facts for maximum likelihood, which needs no counts."""
    return Facts(
        counts=torch.ones(rows, dtype=torch.int64),
        rare=torch.zeros(rows, dtype=torch.bool),
        types=rows,
        specials=len(SPECIALS),
        pad=PAD,
        steps_per_epoch=1,
        width=width,
        label_smoothing=job.training.label_smoothing,
    )


@contextmanager
def kernels_of(device: str) -> Iterator[None]:
    """Context in which fake tensors of the CPU call the kernels that `device` would."""
    replaced: list[tuple[Any, str, Any]] = [(torch._VF, "lstm", _lstm), (torch._VF, "rnn_tanh", _rnn)]
    if device != "cpu":
        replaced += [
            (F, "scaled_dot_product_attention", _fused_attention),
            (F, "dropout", _fused_dropout),
            (gated_cross_entropy, "CHUNK", gated_cross_entropy.CHUNK_CUDA),
            (chunks, "_is_gpu", lambda _: True),
            (chunks, "_compiled", lambda: _fused_errors),
        ]
    with ExitStack() as stack:
        stack.enter_context(torch.backends.mkldnn.flags(enabled=False, allow_tf32=None))  # None: leave TF32 as it is
        for target, name, kernel in replaced:
            stack.enter_context(patch.object(target, name, kernel))
        yield


def _lstm(inputs: Tensor, carried: Any, weights: Any, *options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Count a layer as cuDNN and oneDNN compute it: one product for all inputs, then two kernels a position."""
    if not (_is_one_layer(True, options) and len(weights) == 4):  # five with a projection
        return LSTM(inputs, carried, weights, *options)
    (hidden, cell), (of_inputs, recurrent, bias, _) = carried, weights
    return *_recurrent(_lstm_position, F.linear(inputs, of_inputs, bias), hidden, recurrent, FUSED_LSTM), cell


def _rnn(inputs: Tensor, hidden: Tensor, weights: Any, *options: Any) -> tuple[Tensor, Tensor]:
    """Count a layer without bias as torch computes it: one product for all inputs, then three kernels a position."""
    if not _is_one_layer(False, options):
        return RNN(inputs, hidden, weights, *options)
    of_inputs, recurrent = weights
    return _recurrent(_rnn_position, F.linear(inputs, of_inputs), hidden, recurrent, FUSED_RNN)


def _is_one_layer(has_bias: bool, options: tuple[Any, ...]) -> bool:
    """Whether a recurrent layer is one layer in one direction, batch first. All positions of others run."""
    return options[:2] == (has_bias, 1) and options[4:] == (False, True)


def _lstm_position(gates: Tensor, state: Tensor, recurrent: Tensor) -> Tensor:
    return torch.addmm(gates, state, recurrent.t())[:, : state.shape[1]].tanh()


def _rnn_position(gates: Tensor, state: Tensor, recurrent: Tensor) -> Tensor:
    return (gates + state @ recurrent.t()).tanh()


def _recurrent(position: Any, gates: Tensor, hidden: Tensor, recurrent: Tensor, fused: int) -> tuple[Tensor, Tensor]:
    """Count a layer; fused: largest width whose positions cuDNN fuses."""
    place = FUSED if hidden.shape[2] <= fused else STARTED
    states = _Positions.apply(position, place, gates, hidden[0].to(gates.dtype), recurrent.to(gates.dtype))
    return states, states[:, -1][None]


class _Positions(torch.autograd.Function):
    """States of a recurrent layer (sequences x positions x width). The kernels of a position run once, and count for all."""

    @staticmethod
    def forward(ctx: Any, position: Any, place: str, gates: Tensor, state: Tensor, recurrent: Tensor) -> Tensor:
        ctx.positions, ctx.place = gates.shape[1], place
        ctx.inputs = [one.detach().requires_grad_() for one in (gates[:, 0], state, recurrent)]
        with torch.enable_grad(), _counted(ctx.positions, ctx.place):
            ctx.output = position(*ctx.inputs)
        return torch.stack([ctx.output.detach()] * ctx.positions, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        with _counted(ctx.positions, ctx.place):
            gates, state, recurrent = torch.autograd.grad(ctx.output, ctx.inputs, gradient[:, 0])
            state, recurrent = state + state, recurrent + recurrent  # the sums over positions
        return None, None, torch.stack([gates] * ctx.positions, 1), state, recurrent


@contextmanager
def _counted(times: int, position: str) -> Iterator[None]:
    Counting.times, Counting.position = times, position
    try:
        yield
    finally:
        Counting.times, Counting.position = 1, ""


def _fused_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                     is_causal: bool = False, **_: Any) -> Tensor:  # fmt: skip
    mask = None if is_causal else attn_mask
    fused = aten._scaled_dot_product_flash_attention_for_cpu
    return fused(query, key, value, 0.0, is_causal, attn_mask=mask)[0]


def _fused_errors(product: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Count the compiled function of the loss without a gate, which reads the logits twice and writes them once."""
    total = product.amax().to(arguments[-1])
    return total, total, product.exp_()


def _fused_dropout(values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return torch.native_dropout(values, p, True)[0] if training and p else values
