"""One file an objective or a family of them (registry.py names what it declares)."""
