"""Results of the runs: comparisons of scores, intervals of effects, and verdicts on claims, as numbers."""
