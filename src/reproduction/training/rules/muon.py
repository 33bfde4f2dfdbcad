"""Muon for the hidden matrices, and Adam for all other weights, at one learning rate (Jordan et al. 2024; arXiv 2509.26030).

Muon orthogonalises the momentum of a matrix, so that all of its singular directions move by the same step. Embeddings, biases and
norms stay with Adam, or with the optimizer of the objective. The update has the root-mean-square size of Adam's (arXiv
2502.16982), so that rate, warm-up, decay and weight decay are those of `warmup_adam`. The matrix of query, key and value counts
as one.
"""

from typing import Any

import torch

from reproduction.training.rules import warmup_adam

OPTIONS = {"momentum": 0.95}


class Muon(warmup_adam.WarmUpAdam):
    muon: torch.optim.Muon

    def over(self, groups: list[dict]) -> torch.optim.Optimizer:
        hidden = [weight for group in groups if not group["embedding"] for weight in group["params"] if weight.ndim == 2]
        moved = set(map(id, hidden))
        self.muon = torch.optim.Muon(
            hidden,
            lr=0.0,
            momentum=self.options["momentum"],
            weight_decay=self.training.weight_decay,
            adjust_lr_fn="match_rms_adamw",
        )
        rest = [[weight for weight in group["params"] if id(weight) not in moved] for group in groups]
        return super().over([{**group, "params": weights} for group, weights in zip(groups, rest, strict=True)])

    def step(self, step: int, targets: int) -> float:
        rate = super().step(step, targets)
        self.muon.param_groups[0]["lr"] = rate
        self.muon.step()
        self.muon.zero_grad()
        return rate

    def state_dict(self) -> dict[str, Any]:
        return {"muon": self.muon.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.muon.load_state_dict(state["muon"])


RULE = Muon
