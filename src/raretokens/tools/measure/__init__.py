"""Measurement of any model: its embeddings, read from the files, and its predictions for a text.

model          a model folder, a file or a run of the pipeline; formats and tokenizers read its files
measurement    the metrics of each embedding; row_order gives the row order that metrics expect
streaming      sums over embeddings that do not fit in memory
output         the page, Markdown, CSV, JSON and figures; comparison gives the differences
"""
