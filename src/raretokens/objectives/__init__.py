"""One file an objective or a family of them (registry.py says what it declares)."""
