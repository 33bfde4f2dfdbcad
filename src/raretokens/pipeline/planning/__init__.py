"""Planning of runs: estimates of memory, disk and hours, refusal of runs that cannot fit, and trials at full model size."""
