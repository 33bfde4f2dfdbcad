"""Settings that act on a GPU: compilation without breaks in the graph, and one arithmetic for float32 products."""

import random
import re
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters

from reproduction.pipeline.settings import Machine
from reproduction.training import run
from reproduction.training.models.registry import build, compiles
from reproduction.training.recipe import Execution

N, LONGEST = 50, 40
ROOT = Path(__file__).parents[1]
COMPILED = ["decoder", "encoder_decoder", "untied_decoder"]


def batch(architecture: str, sentences: int, *lengths: int) -> list[torch.Tensor]:
    sides = lengths if architecture == "encoder_decoder" else lengths[:1]
    return [torch.randint(4, N, (sentences, length)) for length in sides]


def small(architecture: str) -> torch.nn.Module:
    shape = {"layers": 2, "width": 16, "heads": 2, "feedforward": 32, "activation": "relu"}
    return build(architecture, shape | {"dropout": 0.1, "attention_dropout": 0.1}, N, LONGEST)


@pytest.mark.parametrize("architecture", COMPILED)
def test_a_model_is_one_graph_as_accelerate_wraps_it(architecture, other_accelerator):
    plugin = TorchDynamoPlugin(backend="eager", fullgraph=True)
    accelerator = Accelerator(cpu=True, mixed_precision="bf16", dynamo_plugin=plugin)
    torch.compiler.reset()
    wrapped = accelerator.prepare(small(architecture))
    hidden = wrapped(*batch(architecture, 3, 7, 9))  # raises where the graph breaks
    accelerator.backward(hidden.square().mean())
    assert hidden.dtype == torch.float32


@pytest.mark.parametrize("architecture", COMPILED)
def test_batches_of_all_shapes_share_two_graphs(architecture):
    torch.compiler.reset()
    counter, numbers = CompileCounter(), random.Random(1)
    model = torch.compile(small(architecture), backend=counter)
    for _ in range(40):
        model(*batch(architecture, *(numbers.randint(2, LONGEST) for _ in range(3))))
    assert counter.frame_count <= 2


@pytest.mark.slow
def test_translation_needs_one_graph_with_the_setting_of_its_stage(other_accelerator):
    (setting,) = re.findall(r"TORCH_COMPILE_DYNAMIC_SOURCES-(.*)}", (ROOT / "stages/run").read_text(encoding="utf-8"))
    plugin, numbers = TorchDynamoPlugin(backend="eager"), random.Random(1)
    torch.compiler.reset()
    with torch.compiler.config.patch(dynamic_sources=setting):
        wrapped = Accelerator(cpu=True, mixed_precision="bf16", dynamo_plugin=plugin).prepare(small("encoder_decoder"))
        before = counters["stats"]["unique_graphs"]
        for _ in range(10):
            wrapped(*batch("encoder_decoder", *(numbers.randint(2, LONGEST) for _ in range(3))))
    assert counters["stats"]["unique_graphs"] - before == 1


@pytest.mark.parametrize("steps, wanted, is_compiled", [
    (9_999, "auto", False), (10_000, "auto", True), (10, True, True), (20_000, False, False),
])  # fmt: skip
def test_only_long_trainings_are_compiled(steps, wanted, is_compiled):
    machine = Machine(compile=wanted)
    assert machine.compiles("decoder", steps) is is_compiled
    assert machine.execution(steps).compile in ([True, "auto"] if is_compiled else [False])
    assert machine.compiles("awd_lstm", steps) is (wanted is True)


@pytest.mark.parametrize("wanted, has_gpu, architecture, is_compiled", [
    ("auto", True, "decoder", True), ("auto", True, "awd_lstm", False), ("auto", False, "decoder", False),
    (False, True, "decoder", False), (True, False, "awd_lstm", True),
])  # fmt: skip
def test_models_are_compiled_on_a_gpu_where_that_works(monkeypatch, wanted, has_gpu, architecture, is_compiled):
    monkeypatch.setattr(run, "Accelerator", lambda **settings: settings)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    settings = run.process("bfloat16", Execution(compile=wanted), architecture)
    assert settings["dynamo_backend"] == (run.COMPILER if is_compiled else "no") and settings["cpu"] is not has_gpu


def test_the_declared_architectures_are_those_that_compile():
    files = Path(run.__file__).parent.glob("models/*.py")
    architectures = [path.stem for path in files if "\nMODEL = " in path.read_text(encoding="utf-8")]
    assert sorted(filter(compiles, architectures)) == COMPILED


def test_float32_products_have_one_arithmetic_on_a_gpu(monkeypatch):
    operations = torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn
    before = [operation.fp32_precision for operation in operations]
    try:
        assert run.float32_products(torch.device("cpu")) == {}
        assert [operation.fp32_precision for operation in operations] == before
        assert run.float32_products(torch.device("cuda")) == {"float32_products": "ieee"}
        assert {operation.fp32_precision for operation in operations} == {"ieee"}
    finally:
        for operation, value in zip(operations, before, strict=True):
            operation.fp32_precision = value
