"""One file an architecture (building.py names what it declares)."""
