"""Which objectives a system beyond Transformers trains with. One that is new is expected to apply everywhere."""

from raretokens.objectives.registry import known

# By what they change: the softmax over the table, of which freezing has a gate; the optimizer, which is Adam then.
SOFTMAX = {"adversarial", "agg", "agps", "dispersion", "freeze_b", "freeze_bc", "freeze_c", "reweight", "soft_cap",
           "tied_gradient", "ul", "ul_agg", "z_loss"}  # fmt: skip
GATES, OPTIMIZER = {*SOFTMAX, "freeze"}, {"coupled_adam", "ember", "weight_decay"}
REFUSED = {
    "images": set(),
    "classify": SOFTMAX,
    "awd_lstm": OPTIMIZER,
    "awd_lstm_mos": GATES | OPTIMIZER,
    "skip_gram": GATES | OPTIMIZER,
}


def applying(system: str) -> list[str]:
    """Objectives that the system trains with and that change what it learns."""
    return [name for name in known() if name not in REFUSED[system]]
