"""Compute metrics over arrays with NumPy and SciPy only, so that a new metric needs neither torch nor a GPU.

`reading` alone needs torch: it reads a text with a model, and returns the arrays.

Functions that read all rows (sums, eigenvectors, partition functions) dispatch on the type of the embedding matrix.
measure/ registers implementations for matrices that are too large for memory.

A public metric returns (value, signature). The value is a number, or a dictionary group -> number in the order total, freq,
med, rare. The signature is a `key:value|key:value` string that records the choices behind the number.
"""
