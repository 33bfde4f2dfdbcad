"""Adam with a linear warm-up, then the inverse square root of the update: the rule of Transformers."""

from raretokens.training.rule import learning_rate
from raretokens.training.rules import adam

OPTIONS: dict = {}


class WarmUpAdam(adam.Adam):
    def rate(self, update: int, targets: int) -> float:
        return learning_rate(update, self.training.peak_lr, self.training.warmup)


RULE = WarmUpAdam
