"""The loss of a tied embedding matrix whose gradient can be gated, and what an objective may change of it."""
