"""Metrics over arrays, with NumPy and SciPy only: a new column of a report needs neither torch nor a GPU.

Functions that read all rows at once (sums, eigenvectors, partition functions) dispatch on the type of the embedding matrix:
tools/measure/ registers its own for matrices that are too large for memory.

A public metric returns (value, signature): a number, or a dictionary from group to number in the order total, freq,
med, rare, and a short `key:value|key:value` string that says under which choices the number was measured.
"""
