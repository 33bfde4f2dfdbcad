"""Focal loss: the loss of a target with probability p is -(1 - p)^gamma log p, so that hard targets count more.

Source: Lin et al. 2017, equation 4. Example of an objective with a loss of its own.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from raretokens.loss.logits_objective import LogitsObjective

OPTIONS = {"gamma": (2.0, ">= 0")}


class Objective(LogitsObjective):
    def position_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        nll = cross_entropy(logits, targets, reduction="none")
        smoothed = cross_entropy(logits, targets, reduction="none", label_smoothing=self.facts.label_smoothing)
        return (-torch.expm1(-nll)) ** self.gamma * smoothed
