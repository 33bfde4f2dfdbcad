"""The loss of a tied table whose gradient can be gated, and what an objective may change of it."""
