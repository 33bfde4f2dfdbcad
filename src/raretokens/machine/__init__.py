"""The machine that a run trains on: its settings, and what it says of the run. None of it changes what comes out."""
