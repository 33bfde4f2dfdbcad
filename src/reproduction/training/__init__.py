"""The training loop, its resumable state on disk, and the batches of each task."""
