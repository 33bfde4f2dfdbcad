"""AGG: adaptive gradient gating (Yu et al., 2022, section 4), with its ablations (tables 9 and 10) as options."""

from raretokens.training.adaptive_gating import AdaptiveGating as Objective

OPTIONS = {
    "alpha": 0.03,
    "alpha_scale": 1.0,  # alpha counts appearances per update: an update of half the tokens wants half of it
    "g1": True,
    "g2": True,
    "static": False,  # the rare group stays as it is after one epoch,
    "static_counts": True,  # and so do the counts behind its gates; False: only the group does
    "include_current": True,  # the window holds the current update (public code); False: only those before it (paper)
    "full_divisor": False,  # in the first epoch counts are divided by the updates seen (public code); True: by K (paper)
    "unmasked_pad": False,  # True, as the public code: padded positions train the states, not the table, to emit <pad>
}

__all__ = ["OPTIONS", "Objective"]
