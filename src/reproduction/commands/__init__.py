"""Commands of a clone: plan, run and check a scale, measure and export its runs."""
