"""The machine that a run trains on: its settings, and the monitor of a run. Nothing here affects results."""
