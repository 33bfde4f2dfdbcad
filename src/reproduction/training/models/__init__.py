"""Architectures: each file defines one (registry.py describes the declarations)."""
