"""Measuring anyone's model: its tables, read from the file; what a text says of its rows; and a page about it.

files        a table on disk, read block by block; folder, vectors and runs find it
pieces       the tokenizer of a model
ordered      a table in the order of frequency, as all metrics expect it
large        the metrics' way over tables that do not fit in memory
"""
