"""Muon for the hidden matrices of a small Transformer, and an objective with its own optimizer for all other weights.

python docs/examples/stack/muon.py [objective]     # needs torch 2.9 or later
"""

import sys

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, scaled_dot_product_attention, silu

from raretokens import Loop, build, facts

N, D, HEADS, BATCH, LENGTH, STEPS = 500, 64, 4, 16, 32, 60


class Block(nn.Module):
    """Causal attention and a feed-forward layer; all matrices are hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(D) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        given = self.norms[0](hidden)
        heads = (layer(given).unflatten(2, (HEADS, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        hidden = hidden + self.out(scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))
        return hidden + self.down(silu(self.up(self.norms[1](hidden))))


def main(name: str = "agg", steps: int = STEPS) -> tuple[list[float], nn.Module, Loop, list[torch.optim.Optimizer]]:
    torch.manual_seed(0)
    text = (torch.rand(40_000) ** 4 * N).long()  # falling frequency
    table = nn.Parameter(torch.randn(N, D) * D**-0.5)  # input embedding and softmax weight
    model = nn.Sequential(Block(), Block(), nn.RMSNorm(D))
    known = facts(torch.bincount(text, minlength=N), width=D, steps_per_epoch=len(text) // (BATCH * LENGTH))
    loop = Loop(build(name, known), table)
    hidden = [weight for weight in model.parameters() if weight.dim() == 2]
    others = [weight for weight in model.parameters() if weight.dim() != 2]
    optimizers = [
        # With this adjustment, learning rate and weight decay are those of AdamW.
        torch.optim.Muon(hidden, lr=3e-3, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        loop.optimizer([table, *others], lr=3e-3, weight_decay=0.01),  # never in Muon, which mixes the rows of a matrix
    ]
    history = []
    for step in range(steps):
        windows = text[torch.randint(0, len(text) - LENGTH - 1, (BATCH, 1)) + torch.arange(LENGTH + 1)]
        inputs, targets = windows[:, :-1], windows[:, 1:]
        loop.begin([targets])
        loss = loop.loss(model(embedding(inputs, table)), targets)
        loss.backward()
        with loop.stepping():
            for optimizer in optimizers:
                optimizer.step()
        for optimizer in optimizers:
            optimizer.zero_grad()
        history.append(loss.item())
        if step % 20 == 0:
            print(f"step {step}  loss {history[-1]:.3f}")
    return history, model, loop, optimizers


if __name__ == "__main__":
    main(*sys.argv[1:])
