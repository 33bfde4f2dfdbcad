"""Word alignment of the training text, for AlignSim."""
