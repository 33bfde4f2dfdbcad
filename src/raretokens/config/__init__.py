"""params.yaml as checked, frozen objects. Only what is told to the stages goes on from here (pipeline/jobs.py)."""
