"""The training loop, its state on disk, and how text is cut into updates."""
