"""Recurrent convolutional document classifier (Lai et al., 2015) with FRAGE's convolutions (Gong et al., 2018, appendix A.2).

Each word is represented with its left and right context: c_l(i) = tanh(W c_l(i-1) + U e(i-1)), mirrored on the right (Lai, Eq. 1
and 2). Each recurrence starts from a learnt vector. Convolutions over 2, 3 and 5 words with batch normalisation follow. Then come
a shortcut past them, the maximum over positions, dropout and a linear layer. FRAGE names these parts; their arrangement is our
interpretation.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from raretokens.vocabulary import PAD

SHAPE = {
    "width": "count",  # width of the embedding matrix
    "context": "count",  # width of the context vector of each side
    "channels": "count",  # channels of each convolution
    "classes": "count",
    "dropout": "probability",
}
KERNELS = (2, 3, 5)  # words


class RCNN(nn.Module):
    """Document classifier with class scores as output; `embedding` (vocabulary x width) is only the input embedding."""

    def __init__(
        self, vocabulary: int, width: int, context: int, channels: int, classes: int, dropout: float, positions: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(vocabulary, width) * width**-0.5)
        self.left, self.right = Context(width, context), Context(width, context)
        seen = context + width + context
        self.convolutions = nn.ModuleList(nn.Conv1d(seen, channels, kernel, bias=False) for kernel in KERNELS)
        self.norms = nn.ModuleList(BatchNorm(channels) for _ in KERNELS)
        self.shortcut = nn.Conv1d(seen, channels * len(KERNELS), 1)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(channels * len(KERNELS), classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return class scores, documents x 1 x classes; inputs: ids padded at the end, documents x positions."""
        there = (inputs != PAD)[:, None]  # documents x 1 x positions
        seen = self.contexts(inputs).transpose(1, 2) * there
        parts = [
            torch.relu(norm(convolution(_widened(seen, convolution.kernel_size[0])), there))
            for convolution, norm in zip(self.convolutions, self.norms, strict=True)
        ]
        features = torch.cat(parts, dim=1) + self.shortcut(seen)
        strongest = features.masked_fill(~there, -torch.inf).amax(2)
        return self.classes(self.dropout(strongest))[:, None]

    def contexts(self, inputs: Tensor) -> Tensor:
        """Return left context, word and right context of each position; values at padding are undefined.

        Shapes: inputs documents x positions, output documents x positions x (context + width + context).
        """
        words = nn.functional.embedding(inputs, self.embedding)
        # Each document is reversed separately, so that padding stays at the end. The same permutation restores the order.
        lengths, positions = (inputs != PAD).sum(1, keepdim=True), torch.arange(inputs.shape[1], device=inputs.device)
        turn = ((lengths - 1 - positions) % inputs.shape[1])[:, :, None]
        backwards = self.right(words.gather(1, turn.expand_as(words)))
        right = backwards.gather(1, turn.expand_as(backwards))
        return torch.cat((self.left(words), words, right), dim=2)


class Context(nn.Module):
    """Recurrent layer that encodes all words before each position in one vector."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(context))
        self.cell = nn.RNN(width, context, bias=False, batch_first=True)  # tanh

    def forward(self, words: Tensor) -> Tensor:
        """Return context vectors, documents x positions x context; words: documents x positions x width."""
        first = self.first.expand(1, len(words), -1).contiguous()
        after = self.cell(words, first)[0]
        return torch.cat((first[0][:, None], after[:, :-1]), dim=1)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that excludes padding from mean and variance."""

    def forward(self, values: Tensor, there: Tensor) -> Tensor:
        """Normalise values (documents x channels x positions); there: mask of real positions, documents x 1 x positions."""
        values = values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
        mean, variance = self.running_mean, self.running_var
        if self.training:
            count = there.sum()
            mean = (values * there).sum((0, 2)) / count
            variance = ((values - mean[:, None]).square() * there).sum((0, 2)) / count
            self.running_mean.lerp_(mean.detach(), self.momentum)
            self.running_var.lerp_(variance.detach() * count / (count - 1).clamp(min=1), self.momentum)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return (values - mean[:, None]) * scale[:, None] + self.bias[:, None]


def _widened(values: Tensor, kernel: int) -> Tensor:
    """Pad with zeros on both sides, so that a convolution keeps the number of positions; an odd zero goes to the right."""
    return nn.functional.pad(values, ((kernel - 1) // 2, kernel // 2))


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    """Return operations per position of a document."""
    width, context, channels = shape["width"], shape["context"], shape["channels"]
    contexts = 2 * context * (width + context)
    convolutions = (sum(KERNELS) + len(KERNELS)) * channels * (width + 2 * context)
    return 6.0 * (contexts + convolutions + len(KERNELS) * channels * shape["classes"] / max(positions, 1))


MODEL = RCNN
