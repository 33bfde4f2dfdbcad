"""Commands of a clone: plan, run and check a scale, and export its runs."""
