"""Models that FSDP2 shards: the trainings of two and four processes equal that of one."""

import pytest
import torch
from tiny.sharding import Case, sharded, train
from tiny.update import D, N, build
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from raretokens import Loop, UserError
from raretokens.objectives.ember import Ember
from raretokens.objectives.registry import known

pytestmark = pytest.mark.usefixtures("float64")
ALL = [*known(), "only_rows", "custom"]
WHOLE = {"adversarial", "soft_cap", "tied_gradient"}  # their loss needs the whole matrix
OPTIONS = [
    ("agg", {"unmasked_pad": True}), ("freeze", {"until": 2}), ("weight_decay", {"form": "l2"}),
    ("frage", {"minibatch": 9}), ("frage", {"moves_table": True, "hidden": True}),
    ("frage", {"rare_only": True, "balanced": False}),
]  # fmt: skip
WEIGHTED = [
    Case("mle", weighted=True), Case("agg", tied=False, bias=True, weighted=True), Case("reweight", tied=False, weighted=True)
]  # fmt: skip
HEADS = [Case("ul_agg", tied=False, bias=True), Case("ul_agg", tied=False, bias=True, parallel=True)]
CASES = {
    2: [
        *(Case(name) for name in ALL),
        *(Case(name, tied=False, parallel=name not in WHOLE) for name in ALL),
        *(Case(name, options) for name, options in OPTIONS),
        *HEADS,
        *WEIGHTED,
    ],
    4: [*HEADS, *(Case(name, parallel=name not in WHOLE) for name in ALL)],
}


@pytest.mark.parametrize("size", CASES)
@pytest.mark.slow
def test_sharded_trainings_equal_one_process(size, tmp_path):
    """With clipped gradients, micro-batches without targets, and a resumption of model, objective and optimizer.

    With vocabulary_parallel, no process has a whole matrix during the loss, unless the objective's penalty needs it.
    """
    every = sharded(size, CASES[size], tmp_path)
    for case, *ended in zip(CASES[size], *every, strict=True):
        expected = train(case)
        for weights in ended:
            torch.testing.assert_close(weights, expected, atol=1e-12, rtol=1e-9, msg=lambda text, case=case: f"{case} {text}")


@pytest.fixture
def alone():
    """A process group of this process."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def test_what_cannot_be_sharded_is_refused(alone):
    matrix = torch.randn(N, D)
    rows, copies = (nn.Parameter(distribute_tensor(matrix, alone, [kind])) for kind in (Shard(0), Replicate()))
    zero = nn.Parameter(matrix)
    zero.ds_id = 0
    with pytest.raises(UserError, match=r"is sharded as \(Replicate\(\),\) on a mesh of \(1,\) processes: should be \(Shard"):
        Loop(build("mle", {}), copies)
    with pytest.raises(UserError, match="sharded by DeepSpeed ZeRO-3: should be whole, or sharded by fully_shard"):
        Loop(build("mle", {}), zero)
    with pytest.raises(UserError, match="vocabulary_parallel is not allowed with a whole embedding matrix"):
        Loop(build("mle", {}), nn.Parameter(matrix), vocabulary_parallel=True)
    whole = [("adversarial", {}, "target_offset"), ("agg", {"unmasked_pad": True}, "unmasked_pad"), ("tied_gradient", {}, "loss")]
    for name, options, method in whole:
        with pytest.raises(UserError, match=f"vocabulary_parallel is not allowed: {method} of {name} needs the whole"):
            Loop(build(name, options), rows, vocabulary_parallel=True)
    loop, targets = Loop(build("mle", {}), rows, vocabulary_parallel=True), torch.zeros(1, 3, dtype=torch.int64)
    loop.begin([targets])
    with pytest.raises(UserError, match="position_weight is not allowed with vocabulary_parallel"):
        loop.loss(torch.randn(1, 3, D), targets, position_weight=torch.ones(1, 3))
    head = nn.Linear(D, N)
    loop = Loop(build("mle", {}), head)
    fully_shard(head, mesh=alone)
    with pytest.raises(RuntimeError, match="has replaced the embedding matrix: create Loop and optimizer after fully_shard"):
        loop.begin([])
    custom = build("mle", {})
    custom.optimizer = lambda groups, **adam: type("Rule", (Ember,), {})(groups, **adam)
    with pytest.raises(UserError, match="Rule has no form for a sharded embedding matrix: should be CoupledAdamW and Ember"):
        Loop(custom, rows).optimizer([rows], lr=0.1)
