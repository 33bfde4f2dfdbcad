"""AGG: adaptive gradient gating (Yu et al., 2022, section 4), with its ablations (tables 9 and 10) as options."""

from raretokens.training.adaptive_gating import AdaptiveGating as Objective

OPTIONS = {
    "alpha": 0.03,
    "alpha_scale": 1.0,  # alpha counts appearances per update: an update of half the tokens wants half of it
    "g1": True,
    "g2": True,
    "static": False,
    "include_current": True,
}

__all__ = ["OPTIONS", "Objective"]
