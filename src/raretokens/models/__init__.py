"""One file an architecture (building.py says what it declares)."""
