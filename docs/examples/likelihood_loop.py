"""A training loop of one's own: a small model on made-up text. plain_loop.py is the same with an objective.

python docs/examples/likelihood_loop.py
"""

import torch
from torch import nn

N, D, BATCH, LENGTH, MICRO_BATCHES, STEPS = 500, 64, 8, 32, 2, 60


def main() -> list[float]:
    torch.manual_seed(0)
    text = (torch.rand(40_000) ** 4 * N).long()  # falling frequency
    table = nn.Parameter(torch.randn(N, D) * D**-0.5)  # input embedding and softmax weight
    model = nn.GRU(D, D, batch_first=True)
    steps_per_epoch = len(text) // (MICRO_BATCHES * BATCH * LENGTH)  # of an epoch
    optimizer = torch.optim.AdamW([table, *model.parameters()], lr=3e-3, weight_decay=0.01)
    history = []
    for step in range(STEPS):
        starts = torch.randint(0, len(text) - LENGTH - 1, (MICRO_BATCHES, BATCH, 1))
        windows = text[starts + torch.arange(LENGTH + 1)]  # micro-batches x sequences x positions + 1
        targets = windows[..., 1:]
        history.append(0.0)
        for inputs, wanted in zip(windows[..., :-1], targets, strict=True):
            hidden, _ = model(nn.functional.embedding(inputs, table))
            loss = nn.functional.cross_entropy((hidden @ table.T).flatten(0, 1), wanted.flatten()) / MICRO_BATCHES
            loss.backward()
            history[-1] += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            print(f"step {step}  loss {history[-1]:.3f}  {steps_per_epoch} steps are an epoch")
    return history


if __name__ == "__main__":
    main()
