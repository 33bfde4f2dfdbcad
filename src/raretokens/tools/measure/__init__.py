"""Measurement of any model: its embeddings, read from the files, and its predictions for a text.

model          a model folder, a file or a run of the pipeline; formats and word_vectors read its files
embeddings     the matrices of a folder, as transformers_models finds them on the meta device, or by name
tokenizers     the tokenizer of a folder; texts encodes a text with it
measurement    the metrics of each embedding; row_order gives the row order that metrics expect
predictions    perplexity, Uniq and continuations of causal models
streaming      sums over embeddings that do not fit in memory
output         the page, Markdown, CSV, JSON and figures; comparison gives the differences
notes          what was assumed, and what was left out and why
"""
