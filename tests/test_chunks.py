"""The chunk body: the bytes that it moves, its bits on a CPU, and the ways of a GPU, run on a CPU."""

import math
import os
import warnings
from itertools import product
from unittest.mock import patch

import pytest
import torch
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch._inductor import compile_fx, metrics
from torch._inductor import config as inductor_config
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from raretokens.loss import chunks
from raretokens.loss.facts import facts
from raretokens.loss.gated_cross_entropy import gated_linear_cross_entropy
from raretokens.loss.terms import PLAIN, Candidates, Gate, Head, Terms, Unlikelihood
from raretokens.objectives.registry import build, known

COMPILE = torch.compile
TYPES, POSITIONS, WIDTH, PAD = 300, 90, 16, -100
GATES = {"none": None, "freeze_b": (0.0, 1.0), "freeze_c": (1.0, 0.0), "freeze_bc": (0.0, 0.0), "agg": (0.3, 0.6)}


def gate_of(name: str, types: int = TYPES) -> Gate | None:
    if GATES[name] is None:
        return None
    rare, one = torch.arange(types) >= types * 0.8, torch.ones(types)
    return Gate(rare, *(one.masked_fill(rare, value) for value in GATES[name]))


def results(gate: Gate | None, dtype: torch.dtype, **more) -> list[torch.Tensor]:
    """Return loss, NLL and gradients of a batch with padding and with equal logits; chunks hold both kinds of targets."""
    random = torch.Generator().manual_seed(0)
    hidden, weight = (3 * torch.randn(rows, WIDTH, generator=random) for rows in (POSITIONS, TYPES))
    weight[1::7] = weight[0]
    targets = torch.randint(0, TYPES, (POSITIONS,), generator=random)
    targets[::9] = PAD
    wide = torch.promote_types(dtype, torch.float32)
    hidden, weight = (value.to(wide).requires_grad_() for value in (hidden, weight))
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        summed = gated_linear_cross_entropy(hidden, weight, targets, gate=gate, ignore_index=PAD, chunk=32, **more)
    summed.loss.backward()
    return [summed.loss.detach(), summed.nll, hidden.grad, weight.grad]


def on_a_gpu(compiled=None):
    """Context in which a CPU computes as a GPU would; compiled: the compiled chunk body, or None for the eager one."""
    return patch.multiple(chunks, _is_gpu=lambda _: True, FUSED=compiled is not None, _compiled=lambda: compiled)


def separate_softmax(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    top, place = logits.max(1, keepdim=True)
    softmax = torch.softmax(logits, 1)
    return logits.copy_(softmax), top - softmax.gather(1, place).log()


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_neither_a_softmax_in_place_nor_fewer_columns_change_a_bit(gate, smoothing, dtype):
    own = results(gate_of(gate), dtype, label_smoothing=smoothing)
    with patch.object(chunks, "_softmax", separate_softmax), patch.object(chunks.Chunks, "_columns", lambda _: TYPES):
        expected = results(gate_of(gate), dtype, label_smoothing=smoothing)
    assert all(torch.equal(*pair) for pair in zip(own, expected, strict=True))


@pytest.mark.parametrize("gate", GATES)
def test_blocks_of_a_chunk_change_no_bit(gate):
    """In bfloat16 a CPU converts a few positions, and a few rows of the gradient, at a time."""
    weights = torch.linspace(0.5, 1.5, TYPES)
    cases = [{}, {"label_smoothing": 0.1, "z_loss": 0.01, "token_weight": weights}, {"head": Head(bias=weights, softcap=10.0)}]
    for more in cases:
        with patch.object(chunks, "BLOCK_BYTES", 1):
            own = results(gate_of(gate), torch.bfloat16, **more)
        with patch.object(chunks, "BLOCK_BYTES", 2**40):
            expected = results(gate_of(gate), torch.bfloat16, **more)
        assert all(torch.equal(*pair) for pair in zip(own, expected, strict=True))


@pytest.mark.parametrize("open_types, columns", [([], 64), ([63], 64), ([64], 128), ([0, 149], 192), ([199], 200)])
def test_only_zeros_at_the_end_of_gate_a_spare_columns(open_types, columns):
    towards_nonrare = torch.zeros(200)
    towards_nonrare[open_types] = 0.5
    terms = Terms(Gate(torch.ones(200) > 0, towards_nonrare, torch.ones(200)), PLAIN, None, None, None, 0.0, 0.0)
    targets = torch.tensor([0, 1, 2])
    assert chunks.Chunks(torch.ones(3, 2), torch.ones(200, 2), targets, terms, True, 2).columns == columns


@pytest.mark.parametrize("device, dtype, gate, smoothing, expected", [
    ("cuda", torch.float32, "none", 0.0, 24), ("cuda", torch.bfloat16, "none", 0.0, 30),  # 58.5 before
    ("cuda", torch.bfloat16, "none", 0.1, 42), ("cuda", torch.bfloat16, "agg", 0.0, 44),
    ("cpu", torch.float32, "none", 0.0, 28), ("cpu", torch.bfloat16, "none", 0.0, 34),
])  # fmt: skip
def test_bytes_that_a_chunk_moves_for_each_logit(device, dtype, gate, smoothing, expected):
    """On a GPU without a wait of the host: fake tensors refuse every operation that needs a number or depends on one."""
    rows, types, width = 2048, 8192, 8
    with FakeTensorMode() as mode, patch.multiple(chunks, _is_gpu=lambda _: device == "cuda", FUSED=False):
        hidden, weight = torch.empty(rows, width, dtype=dtype), torch.empty(types, width)
        part = gate_of(gate, types)
        part = part and Gate(*(mode.from_tensor(vector) for vector in part))
        terms = Terms(part, PLAIN, None, None, None, smoothing, 0.0)
        work = chunks.Chunks(hidden, weight, torch.zeros(rows, dtype=torch.int64), terms, True, rows)
        with Moved() as moved:
            work.walk()
    assert expected <= moved.bytes / (rows * types) < expected + 0.2


class Moved(TorchDispatchMode):
    """Counter of the bytes that kernels read and write. Numbers that a stride of zero repeats count once."""

    bytes = 0.0
    free = ("empty", "empty_like", "new_empty", "empty_strided", "detach", "alias", "lift_fresh", "_unsafe_view")
    only_written = ("zero_", "fill_", "copy_")  # the first argument of these
    few_rows = ("embedding", "index", "index_select", "gather", "scatter_", "scatter_add_", "index_put_", "index_add_")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert "_local_scalar_dense" not in function.name()
        result, name = function(*args, **(kwargs or {})), function._schema.name.removeprefix("aten::")
        if function.namespace == "aten" and not (function.is_view or name in self.free + self.few_rows):
            read = tree_leaves((args[name in self.only_written :], {**(kwargs or {}), "out": None}))
            passes = 4 if name == "logsumexp" else 1  # over the whole matrix
            self.bytes += passes * sum(map(self.size, read)) + sum(map(self.size, tree_leaves(result)))
        return result

    @staticmethod
    def size(leaf):
        if not isinstance(leaf, torch.Tensor):
            return 0
        shown = (size for size, stride in zip(leaf.shape, leaf.stride(), strict=True) if stride)
        return math.prod(shown) * leaf.element_size()


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("dtype, of_the_largest", [(torch.float64, 1e-12), (torch.bfloat16, 0.01)])
@pytest.mark.parametrize("way", ["eager", "fused"])
def test_a_gpu_gets_the_gradients_of_a_cpu(gate, dtype, of_the_largest, way):
    """Also where the compiled function, which is not compiled here, lacks a term."""
    weights = torch.linspace(0.5, 1.5, TYPES)
    cases = [{}, {"label_smoothing": 0.1, "z_loss": 0.01, "token_weight": weights}, {"head": Head(softcap=10.0)}]
    for more in cases:
        expected = results(gate_of(gate), dtype, **more)
        with on_a_gpu(chunks._errors if way == "fused" else None):
            own = results(gate_of(gate), dtype, **more)
        for value, truth in zip(own, expected, strict=True):
            assert (value - truth).abs().max() <= of_the_largest * truth.abs().max()


def test_the_compiled_function_is_one_graph_and_a_second_one_for_the_last_chunk():
    """The outer function is closed to the compiler, and the inner one is compiled nevertheless."""
    graphs = []

    def counted(graph, _inputs):
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    compiled = torch.compile(chunks._errors, backend=counted, fullgraph=True)
    expected = results(gate_of("agg"), torch.bfloat16, label_smoothing=0.1)
    for _ in range(2):
        with on_a_gpu(compiled):
            own = results(gate_of("agg"), torch.bfloat16, label_smoothing=0.1)
    assert len(graphs) == 2
    assert all(
        (value - truth).abs().max() <= 0.01 * truth.abs().max() for value, truth in zip(own, expected, strict=True)
    )


def compile_eagerly(function, **options):
    return COMPILE(function, backend="eager", **options)


def compile_as_torch_2_11(function, *, fullgraph):
    return COMPILE(function, backend="eager", fullgraph=fullgraph)


@pytest.mark.parametrize("compiler", [compile_eagerly, compile_as_torch_2_11])
def test_all_objectives_in_one_process_stay_below_the_limit_of_compilations(compiler, monkeypatch):
    """In training steps of two sizes, with and without label smoothing, as in the benchmark of correctness."""
    torch.compiler.reset()
    counts = torch.arange(60, 0, -1)
    monkeypatch.setattr(torch, "compile", compiler)
    compiled = chunks._compiled.__wrapped__()  # without the cache
    with on_a_gpu(compiled), warnings.catch_warnings(action="error", category=UserWarning):
        for smoothing, name, rows in product((0.0, 0.1), known(), (9, 7)):
            own = build(name, facts(counts, rare=counts < 12, pad=1, width=8, steps_per_epoch=5, label_smoothing=smoothing))
            targets = torch.randint(2, 60, (1, rows))
            own.begin_step(torch.bincount(targets[0], minlength=60))
            hidden, weight = torch.randn(1, rows, 8, requires_grad=True), torch.randn(60, 8, requires_grad=True)
            own.loss(hidden, weight, targets).loss.backward()
        assert chunks.FUSED


def test_the_compiled_function_is_left_where_it_lacks_a_term():
    hidden, weight, targets = torch.ones(4, 2), torch.ones(6, 2), torch.zeros(4, dtype=torch.int64)
    plain = Terms(None, PLAIN, None, None, None, 0.1, 0.1)
    candidates = Candidates(Unlikelihood(), targets[None], PAD)
    changes = [{}, {"head": Head(scale=0.5)}, {"offset": torch.ones(4)}, {"candidates": candidates}]

    def is_fused(terms: Terms, wants_gradient: bool = True) -> bool:
        return chunks.Chunks(hidden, weight, targets, terms, wants_gradient, 2).is_fused

    with on_a_gpu(chunks._errors):
        assert [is_fused(plain._replace(**change)) for change in changes] == [True, False, False, False]
        assert not is_fused(plain, wants_gradient=False)
    assert chunks.FUSED and not is_fused(plain)  # a CPU keeps its bits


@pytest.mark.parametrize(
    ("fails_at", "error"),
    [
        (1, torch._inductor.exc.TritonMissing(None)),
        (2, torch._inductor.exc.TritonMissing(None)),
        (2, FailOnRecompileLimitHit("the limit\nof triton")),  # no RuntimeError
    ],
)
def test_without_a_compiler_the_loss_is_computed_all_the_same_with_one_warning(fails_at, error):
    """The compiler may fail at once, or later for another shape. Nothing that it has begun counts."""
    calls = []

    def compiled(product, *arguments):
        calls.append(len(product))
        if len(calls) == fails_at:
            product.zero_()
            raise error
        return chunks._errors(product, *arguments)

    expected = results(gate_of("agg"), torch.float64, label_smoothing=0.1)
    warning = pytest.warns(UserWarning, match="^the loss runs without its compiled function, .*triton")
    with on_a_gpu(compiled), warning as warned:
        own = [results(gate_of("agg"), torch.float64, label_smoothing=0.1) for _ in range(2)]
    assert len(warned) == 1 and len(calls) == fails_at
    for value, truth in zip(own[0] + own[1], expected * 2, strict=True):
        torch.testing.assert_close(value, truth, rtol=1e-12, atol=1e-12)


def test_a_counter_of_operations_does_not_turn_the_compiled_function_off():
    """Torch compiles nothing while a dispatch mode is active, which is no fault of the compiler."""
    expected = results(gate_of("agg"), torch.float64)
    with on_a_gpu(torch.compile(chunks._errors, backend="eager", fullgraph=True)), warnings.catch_warnings(action="error"):
        with FlopCounterMode(display=False):
            own = results(gate_of("agg"), torch.float64)
        assert chunks.FUSED
    for value, truth in zip(own, expected, strict=True):
        torch.testing.assert_close(value, truth, rtol=1e-12, atol=1e-12)


def test_too_little_memory_is_no_reason_to_go_on():
    def compiled(*_):
        raise torch.OutOfMemoryError

    with on_a_gpu(compiled), pytest.raises(torch.OutOfMemoryError):
        results(None, torch.float32)


# Writing machine code takes up to a minute of processor time: RARETOKENS_COMPILE asks for it, and .ci/run sets it.
@pytest.mark.skipif("RARETOKENS_COMPILE" not in os.environ, reason="takes long: RARETOKENS_COMPILE=1 runs it")
@pytest.mark.parametrize("gate, read_and_written", [("none", 8), ("agg", 10)])
def test_inductor_compiles_kernels_that_move_few_bytes(gate, read_and_written, monkeypatch):
    """For a CPU, which a run never does. Three reads and a write of a logit, two writes with a gate; 24 and 38 bytes without."""
    monkeypatch.setattr(compile_fx.inductor_metrics_log, "isEnabledFor", lambda _: True)
    random = torch.Generator().manual_seed(0)
    exact = torch.randn(64, 2048, generator=random, dtype=torch.float64)
    column = torch.randint(0, 2048, (64, 1), generator=random)
    product, more = exact.to(torch.bfloat16), (gate_of(gate, 2048), None, 0.1, 0.0)
    exact = product.double()
    truth = [*chunks._errors(exact, column, *more, torch.float64), exact]
    torch.compiler.reset()
    metrics.reset()
    with inductor_config.patch(fx_graph_cache=False):
        found = [*torch.compile(chunks._errors, fullgraph=True)(product, column, *more, torch.float32), product]
    assert metrics.num_bytes_accessed / product.numel() == pytest.approx(read_and_written, rel=0.02)
    for value, expected in zip(found, truth, strict=True):
        assert (value - expected).abs().max() <= 0.01 * expected.abs().max()
