"""What the runs show: comparisons of their scores, intervals of effects, and verdicts on claims; numbers until rendered."""
