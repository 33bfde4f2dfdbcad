"""Tied-gradient scaling weights the gradient from input look-ups against that from the softmax (arXiv 2603.26663).

    gradient of the tied matrix = softmax gradient / input_scale + look-up gradient

The paper multiplies the look-up gradient by a factor of 2, 5 or 10. An objective does not see the look-ups, so the softmax
gradient is divided by the factor instead. The gradient is then the paper's, divided by the factor. The steps of Adam do not
depend on a factor of the whole gradient, but the norm that gradient clipping sees is smaller. The default is the factor of the
paper's table 2. In models whose embeddings are not tied, a factor of the output embedding's gradient is all that remains.
"""

from typing import Any

import torch
from torch import Tensor

from raretokens.loss import objective
from raretokens.loss.terms import SummedLoss

OPTIONS = {"input_scale": (5.0, "> 0")}


class Objective(objective.Objective):
    def loss(self, hidden: Tensor, weight: Tensor, targets: Tensor, **more: Any) -> SummedLoss:
        return super().loss(hidden, _Divided.apply(weight, self.input_scale), targets, **more)


class _Divided(torch.autograd.Function):
    """The same matrix, whose gradient is divided by a number."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, divisor: float) -> Tensor:  # type: ignore[override]
        ctx.divisor = divisor
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gradient / ctx.divisor, None
