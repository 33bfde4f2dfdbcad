"""Metrics over artifacts: NumPy and SciPy only, so that a new column of a table needs neither torch nor a GPU.

What reads all rows at once (sums, eigenvectors, partition functions) is dispatched on the kind of table: tools/measure/
registers its own way for tables that are too large for memory.

A public metric returns (value, signature): a number, or a dictionary from group to number in the order total, freq,
med, rare, and a short `key:value|key:value` string that says under which choices the number was measured.

language_model, translation and data put them together to score files: artifacts reads what a run left, history and
points follow its table, facts and scores lay the file out.
"""
