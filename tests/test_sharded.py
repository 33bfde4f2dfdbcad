"""Models that FSDP2 shards: the trainings of two and four processes equal that of one."""

import pytest
import torch
from tiny.sharding import Case, sharded, train

from raretokens.objectives.registry import known

ALL = [*known(), "only_rows", "custom"]
WHOLE = {"adversarial"}  # its loss needs the whole matrix
OPTIONS = [
    ("agg", {"unmasked_pad": True}), ("freeze", {"until": 2}), ("weight_decay", {"form": "l2"}),
    ("frage", {"minibatch": 9}), ("frage", {"moves_table": True, "hidden": True}),
    ("frage", {"rare_only": True, "balanced": False}),
]  # fmt: skip
HEADS = [Case("ul_agg", tied=False, bias=True), Case("ul_agg", tied=False, bias=True, parallel=True)]
FOUR = ["agg", "frage", "spectrum_control", "mu_centering", "coupled_adam", "ember", "only_rows"]
CASES = {
    2: [
        *(Case(name) for name in ALL),
        *(Case(name, tied=False, parallel=name not in WHOLE) for name in ALL),
        *(Case(name, options) for name, options in OPTIONS),
        *HEADS,
    ],
    4: [*HEADS, *(Case(name, parallel=True) for name in FOUR)],
}


@pytest.fixture(autouse=True)
def exact():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("size", CASES)
def test_sharded_trainings_equal_one_process(size, tmp_path):
    """With clipped gradients, micro-batches without targets, and a resumption of model, objective and optimizer."""
    every = sharded(size, CASES[size], tmp_path)
    for case, *ended in zip(CASES[size], *every, strict=True):
        expected = train(case)
        for weights in ended:
            torch.testing.assert_close(weights, expected, atol=1e-12, rtol=1e-9, msg=lambda text, case=case: f"{case} {text}")
