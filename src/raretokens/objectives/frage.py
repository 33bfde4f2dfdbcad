"""FRAGE trains embeddings that a discriminator cannot separate into popular and rare types (Gong et al., 2018).

The source is section 4 and Algorithm 1. CE = mean cross-entropy over popular rows + mean cross-entropy over rare rows (Eq. 2).
The model minimises its loss minus strength * CE. After each training step, the discriminator takes one gradient step that lowers
CE on the whole embedding matrix. Eq. 2 of the paper has the negative cross-entropy of swapped labels instead, which gives the
same game with other gradients and has no bound. This is the loss of the public code.

Options reproduce other differences of the public code. In language models, that code weights the cross-entropy of each class by
the other class's share, which is CE / 2; in AWD-LSTM the model's own step has the mean over rare rows instead. Its linear
discriminator with two outputs equals this one with twice the learning rate, so its learning rates of CE / 2 are the same here.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from raretokens.loss import objective

OPTIONS = {
    "strength": (0.1, ">= 0"),  # lambda of Eq. 3; public code: 0.02 (AWD-LSTM), 0.01 (MoS), 0.05 to 10 (translation)
    "popular": (0.2, "> 0", "< 1"),  # share of the most frequent types that count as popular
    "popular_types": (0, ">= 0"),  # number of popular types, overrides the share; public code: 1000 to 8000
    "hidden": False,  # True: a hidden layer of width 1.5 d instead of logistic regression
    "lr": (0.1, "> 0"),  # learning rate of the discriminator
    "steps": (1, ">= 1"),  # discriminator steps after each training step; public code of translation: up to 20
    # Training step after which the game begins. In translation it is 50000 (table 8), from the baseline's weights.
    "start": (0, ">= 0"),
    "rare_only": False,  # True (public code, AWD-LSTM): only rare rows receive the adversary's gradient
    "balanced": True,  # False (a criterion of the public code): CE is the mean over all rows instead of the sum of two means
    "moves_table": False,  # True (public code, translation): the discriminator's step also moves the embedding matrix
    "minibatch": 0,  # rows sampled for CE in each step, half of them popular; 0: all rows; word embeddings: 3000
}


class Objective(objective.CountingObjective):
    def __init__(self, facts: objective.Facts, popular: float, popular_types: int, hidden: bool, **options: Any) -> None:
        super().__init__(facts, **options)
        order, is_popular = facts.by_frequency, facts.ranks < (popular_types or round(popular * facts.types))
        frequent, rare = facts.used & is_popular, facts.used & ~is_popular
        if not (frequent.any() and rare.any()):
            raise ValueError(f"{int(frequent.sum())} types are popular and {int(rare.sum())} rare; both are needed")
        for name, mask in (("popular", frequent), ("rare", rare)):  # indices, as a GPU waits for the size of what a mask selects
            self.register_buffer(f"{name}_ids", order[mask[order]], persistent=False)
            self.register_buffer(f"{name}_rows", mask.nonzero().squeeze(1), persistent=False)
        middle = facts.width * 3 // 2
        layers = [nn.Linear(facts.width, middle), nn.ReLU(), nn.Linear(middle, 1)] if hidden else [nn.Linear(facts.width, 1)]
        self.discriminator = nn.Sequential(*layers)

    def cross_entropy(self, weight: Tensor, parameters: dict[str, Tensor], rare_only: bool = False) -> Tensor:
        """Return CE of an embedding matrix (N x d) under the discriminator's parameters; popular rows have label 1.

        rare_only: whether popular rows are excluded from the gradient.
        """
        rows, popular, rare = self._drawn(weight) if self.minibatch else (weight, self.popular_rows, self.rare_rows)
        if rare_only:
            is_rare = torch.zeros(len(rows), 1, dtype=torch.bool, device=rows.device).index_fill_(0, rare, True)
            rows = torch.where(is_rare, rows, rows.detach())
        rows = rows.to(parameters[next(iter(parameters))].dtype)
        logits = functional_call(self.discriminator, parameters, (rows,)).squeeze(1)
        softplus = nn.functional.softplus
        of_popular, of_rare = softplus(-logits[popular]), softplus(logits[rare])
        return of_popular.mean() + of_rare.mean() if self.balanced else torch.cat((of_popular, of_rare)).mean()

    def _drawn(self, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return this step's sample of embedding rows, and the indices of its popular and rare rows.

        Model and discriminator use the same sample. The sample depends only on the number of the step, so a resumed run repeats
        it. The gradient is sparse.
        """
        generator, half = torch.Generator().manual_seed(self.number), self.minibatch // 2
        indices = []
        for ids, size in ((self.popular_ids, half), (self.rare_ids, self.minibatch - half)):
            drawn = torch.randint(len(ids), (size,), generator=generator)
            indices.append(ids[drawn.to(weight.device, non_blocking=True)])
        rows = nn.functional.embedding(torch.cat(indices), weight, sparse=True)
        popular, rare = torch.arange(self.minibatch, device=weight.device).tensor_split([half])
        return rows, popular, rare

    def penalty(self, weight: Tensor) -> Tensor | None:
        if self.number <= self.start:
            return None
        fixed = {name: value.detach() for name, value in self.discriminator.named_parameters()}
        return -self.strength * self.cross_entropy(weight, fixed, self.rare_only)

    def end_step(self, weight: Tensor) -> None:
        if self.number > self.start:
            for _ in range(self.steps):
                self._step(weight)

    def _step(self, weight: Tensor) -> None:
        """Take one gradient step of the discriminator, with gradients that the model's optimizer never sees."""
        parameters = dict(self.discriminator.named_parameters())
        moved = [*parameters.values(), weight] if self.moves_table else list(parameters.values())
        with torch.enable_grad():
            loss = self.cross_entropy(weight if self.moves_table else weight.detach(), parameters)
            gradients = torch.autograd.grad(loss, moved)
        with torch.no_grad():
            for value, gradient in zip(moved, gradients, strict=True):
                value.sub_(gradient, alpha=self.lr)
