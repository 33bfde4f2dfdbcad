"""Models that FSDP2 shards: the trainings of two and four processes equal that of one."""

import pytest
import torch
from tiny.sharding import Case, sharded, train

from raretokens.objectives.registry import known

NO_PARALLEL = {"adversarial"}  # its loss needs the whole matrix
CASES = [
    *(Case(name, tied=tied) for name in [*known(), "only_rows", "custom"] for tied in (True, False)),
    *(Case(name, parallel=True) for name in [*known(), "only_rows", "custom"] if name not in NO_PARALLEL),
]


@pytest.fixture(autouse=True)
def exact():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("size", [2, 4])
def test_sharded_trainings_equal_one_process(size, tmp_path):
    every = sharded(size, CASES, tmp_path)
    for case, *ended in zip(CASES, *every, strict=True):
        expected = train(case)
        for weights in ended:
            torch.testing.assert_close(weights, expected, atol=1e-12, rtol=1e-9, msg=lambda text, case=case: f"{case} {text}")
