"""The machine that a run trains on: its settings, and who watches the run. None of it changes what comes out."""
