"""FRAGE: the table deceives a discriminator of popular and rare types (Gong et al., 2018, section 4 and Algorithm 1).

CE = 1/2 * (mean cross-entropy over popular rows + the same over rare rows). The model minimises its loss less strength * CE;
after each of its updates the discriminator takes one gradient step that lowers CE on the whole table. (The printed Eq. 2 to 5
have signs that do not give this game; the public code settles it.)
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from raretokens.training import objective

OPTIONS = {
    "strength": 0.1,  # lambda
    "popular": 0.2,  # share of the types, the most frequent ones
    "hidden": False,  # one hidden layer of 1.5 d instead of a logistic regression
    "lr": 0.1,  # of the discriminator's gradient steps
}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, strength: float, popular: float, hidden: bool, lr: float) -> None:
        super().__init__(facts)
        self.strength, self.lr = strength, lr
        ids = torch.arange(len(facts.counts), device=facts.counts.device)
        self.register_buffer("popular", facts.used & (ids < round(popular * facts.types)), persistent=False)
        self.register_buffer("rare", facts.used & ~self.popular, persistent=False)
        middle = facts.width * 3 // 2
        layers = (
            [nn.Linear(facts.width, middle), nn.ReLU(), nn.Linear(middle, 1)] if hidden else [nn.Linear(facts.width, 1)]
        )
        self.discriminator = nn.Sequential(*layers)

    def cross_entropy(self, weight: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        """CE of a table under a discriminator; the label of popular rows is 1."""
        weight = weight.to(parameters[next(iter(parameters))].dtype)
        logits = functional_call(self.discriminator, parameters, (weight,)).squeeze(1)
        loss = nn.functional.softplus
        return (loss(-logits[self.popular]).mean() + loss(logits[self.rare]).mean()) / 2

    def penalty(self, weight: Tensor) -> Tensor:
        fixed = {name: value.detach() for name, value in self.discriminator.named_parameters()}
        return -self.strength * self.cross_entropy(weight, fixed)

    def end_update(self, weight: Tensor) -> None:
        parameters = dict(self.discriminator.named_parameters())
        with torch.enable_grad():
            gradients = torch.autograd.grad(self.cross_entropy(weight.detach(), parameters), list(parameters.values()))
        with torch.no_grad():
            for value, gradient in zip(parameters.values(), gradients, strict=True):
                value.sub_(self.lr * gradient)
