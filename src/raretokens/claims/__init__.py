"""Judge claims on systems by their scores: effects, intervals over seeds and test items, q and verdicts."""
