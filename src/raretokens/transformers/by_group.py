"""Perplexity by frequency group, summed up batch by batch."""

import torch
from torch import Tensor

from raretokens.loss.facts import Facts

NAMES = ("freq", "med", "rare")
FREQUENT = 3 / 8  # of the types that are not rare: 30, 50 and 20 % of all, where the usual fifth is rare


def groups(facts: Facts) -> Tensor:
    """N, int64: 0, 1 and 2 for frequent, medium and rare types; the rare ones are the facts'."""
    code = torch.full_like(facts.counts, 2)
    rest = (~facts.rare).nonzero().squeeze(1)
    rest = rest[facts.counts[rest].argsort(descending=True, stable=True)]
    code[rest] = (torch.arange(len(rest), device=rest.device) >= round(FREQUENT * len(rest))).to(code.dtype)
    return code


def sums(nll: Tensor, targets: Tensor, ignored: int, code: Tensor) -> Tensor:
    """Sequences x groups x 2, float64: sum of -log p and number of targets; nll and targets: sequences x positions."""
    kept = targets != ignored
    group = code[targets.masked_fill(~kept, 0)]
    chosen = torch.stack([kept & (group == number) for number in range(len(NAMES))], dim=1)
    return torch.stack(((chosen * nll.double()[:, None]).sum(2), chosen.sum(2).double()), dim=2)


def metrics(total: Tensor) -> dict[str, float]:
    """loss: mean -log p of a target; ppl_<group>: its exponential; groups without a target are left out. total: groups x 2."""
    both = dict(zip(NAMES, total, strict=True)) | {"total": total.sum(0)}
    means = {name: nll / count for name, (nll, count) in both.items() if count}
    found = {f"ppl_{name}": float(mean.exp()) for name, mean in means.items()}
    return {"loss": float(means["total"]), **found} if means else {}
