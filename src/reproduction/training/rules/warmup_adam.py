"""AdamW with linear warm-up and inverse-square-root decay of the learning rate, as for Transformers."""

from reproduction.training.rule import learning_rate
from reproduction.training.rules import adam

OPTIONS: dict = {}


class WarmUpAdam(adam.Adam):
    def rate(self, step: int, targets: int) -> float:
        return learning_rate(step, self.training.peak_lr, self.training.warmup)


RULE = WarmUpAdam
