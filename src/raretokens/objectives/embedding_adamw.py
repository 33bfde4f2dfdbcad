"""Base class of optimizers that use AdamW except for the embedding matrices, the groups with `embedding=True`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class EmbeddingAdamW(torch.optim.AdamW, ABC):
    """AdamW with a custom step for embedding matrices.

    A subclass implements `step_embedding`. Other parameters, and the decoupled weight decay of all parameters, follow AdamW.
    """

    def __init__(self, groups: Iterable[dict], **adam: float) -> None:
        super().__init__(groups, fused=True, **adam)
        # A gradient scaler must unscale before the step, because step_embedding reads the gradients as well.
        self._step_supports_amp_scaling = False

    @abstractmethod
    def step_embedding(self, group: dict, embedding: Tensor, gradient: Tensor, state: dict) -> None:
        """Change the embedding in place with the hyperparameters in `group`; `state` starts empty and is checkpointed."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state. A fused AdamW moves the numbers of steps to the GPU, where step_embedding would wait for them."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            for state in [self.state[p] for p in group["params"] if group["embedding"] and p in self.state]:
                state["step"] = state["step"].cpu()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        embeddings = [
            (group, p) for group in self.param_groups if group["embedding"] for p in group["params"] if p.grad is not None
        ]
        gradients = [p.grad for _, p in embeddings]
        for _, embedding in embeddings:
            embedding.grad = None  # AdamW's own step skips parameters without a gradient
        result = super().step(closure)
        for (group, embedding), gradient in zip(embeddings, gradients, strict=True):
            embedding.grad = gradient
            embedding.mul_(1 - group["lr"] * group["weight_decay"])
            self.step_embedding(group, embedding, gradient, self.state[embedding])
        return result
