"""A plain training loop, as a tutorial would write it: what our Trainer is measured beside.

Pre-norm blocks with fused projections and torch's causal attention (nanoGPT's shape), or torch's own encoder-decoder;
`F.cross_entropy` of all logits, autocast, fused AdamW, batches that already lie on the device.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from workload import Workload

from raretokens.vocabulary import PAD
from reproduction.training.batches import Batch
from reproduction.training.models.decoder import sinusoids


class Block(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, width: int, heads: int, feedforward: int, dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.heads, self.attention_dropout = heads, attention_dropout
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feedforward = nn.Sequential(nn.Linear(width, feedforward), nn.GELU(), nn.Linear(feedforward, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """sequences x positions x width, in and out"""
        sequences, length, width = hidden.shape
        split = self.project(self.norms[0](hidden)).view(sequences, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        dropout = self.attention_dropout if self.training else 0.0
        seen = F.scaled_dot_product_attention(*split, dropout_p=dropout, is_causal=True)
        hidden = hidden + self.dropout(self.out(seen.transpose(1, 2).reshape(sequences, length, width)))
        return hidden + self.dropout(self.feedforward(self.norms[1](hidden)))


class Plain(nn.Module):
    """The model and its loss as a plain loop has them; one table for all embeddings and the softmax."""

    def __init__(self, work: Workload, positions: int) -> None:
        super().__init__()
        shape, self.smoothing = work.shape, work.training.label_smoothing
        width, heads, layers, feedforward = (shape[key] for key in ("width", "heads", "layers", "feedforward"))
        self.table = nn.Parameter(torch.randn(work.vocabulary, width) * width**-0.5)
        self.register_buffer("positions", sinusoids(positions, width))
        self.dropout = nn.Dropout(shape["dropout"])
        if work.task == "lm":
            block = width, heads, feedforward, shape["dropout"], shape["attention_dropout"]
            self.body = nn.Sequential(*(Block(*block) for _ in range(layers)), nn.LayerNorm(width))
        else:
            self.body = nn.Transformer(width, heads, layers, layers, feedforward, shape["dropout"], batch_first=True)

    def embed(self, ids: Tensor) -> Tensor:
        scaled = F.embedding(ids, self.table) * math.sqrt(self.table.shape[1])
        return self.dropout(scaled + self.positions[: ids.shape[1]])

    def forward(self, inputs: list[Tensor], targets: Tensor) -> Tensor:
        """Sum of the cross-entropies of a micro-batch."""
        if len(inputs) == 1:
            hidden = self.body(self.embed(inputs[0]))
        else:
            source, before = inputs
            absent, length = source == PAD, before.shape[1]
            mask = nn.Transformer.generate_square_subsequent_mask(length, device=source.device)
            masks = {"src_key_padding_mask": absent, "memory_key_padding_mask": absent}
            hidden = self.body(self.embed(source), self.embed(before), tgt_mask=mask, tgt_is_causal=True, **masks)
        logits = F.linear(hidden, self.table).flatten(0, 1)
        smoothing = {"ignore_index": PAD, "label_smoothing": self.smoothing}
        return F.cross_entropy(logits, targets.flatten(), reduction="sum", **smoothing)


def trained(work: Workload, steps: list[list[Batch]], is_compiled: bool, device: str) -> Iterator[int]:
    """Train on updates of micro-batches; yields the target tokens of each update when it has been queued."""
    model = Plain(work, work.training.block).to(device)
    forward = torch.compile(model) if is_compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    sizes = [sum(int((batch.targets != PAD).sum()) for batch in step) for step in steps]
    there = [[([ids.to(device) for ids in b.inputs], b.targets.to(device)) for b in step] for step in steps]
    for step, tokens in zip(there, sizes, strict=True):
        for inputs, targets in step:
            with torch.autocast(device, dtype=torch.bfloat16, enabled=work.training.precision == "bfloat16"):
                loss = forward(inputs, targets) / tokens
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield tokens
