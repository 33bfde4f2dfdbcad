"""Planning of runs: estimates of parameters, tokens, FLOPs, memory, disk and hours, and refusal of runs that cannot fit."""
