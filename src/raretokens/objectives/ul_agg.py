"""UL + AGG (AGG table 4): one adaptive gate on the gradient of likelihood and unlikelihood together.

No formula and no code is public; gating d(NLL + UL)/dz is our reading.
"""

from raretokens.training.adaptive_gating import AdaptiveGating
from raretokens.training.objective import Facts
from raretokens.training.unlikelihood import Unlikelihood

OPTIONS = {"alpha": 0.03, "alpha_scale": 1.0, "alpha_ul": 1.0, "flatten_batch": False}


class Objective(AdaptiveGating):
    def __init__(self, facts: Facts, alpha: float, alpha_scale: float, alpha_ul: float, flatten_batch: bool) -> None:
        super().__init__(facts, alpha, alpha_scale)
        self.settings = Unlikelihood(alpha_ul, flatten_batch)

    def unlikelihood(self) -> Unlikelihood:
        return self.settings
