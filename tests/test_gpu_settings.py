"""Settings that act on a GPU."""

import torch

from raretokens.training import run


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
