"""Measurement of any model: its embeddings, which are read from its files, and its predictions for a text.

model               a model folder or a file; formats and inference_models read its files
hub                 a model of the Hugging Face Hub as a folder in the cache, and the requests for it
stored_matrix       rows of a matrix in a file, dequantised where they are integers
embeddings          the embedding matrices of a folder: found by transformers_models on the meta device, or by name
tokenizers          the tokenizer of a folder, or a vocabulary file; texts encodes a text, or estimates frequencies without a text
measurement         the metrics of each embedding; row_order arranges rows in the order that metrics expect
causal_predictions  perplexity, Uniq and continuations of causal models
hidden_states       anisotropy of the hidden states of each layer, from sums over the positions of a text
streaming           sums over embeddings that do not fit in memory
row_bootstrap       bootstrap replicates of the geometry
output              differences between models, and summaries as lines; page: HTML, Markdown, CSV, JSON and figures
notes               assumptions, parts that were left out, and where I(W) depends on the length of rows; progress
candidates          candidates for under-trained rows, with explanations
word_similarity     correlation of cosines with human scores of word pairs
"""
