"""Re-initialisation of under-trained rows in a copy of a model folder.

selection       the rows to take, and the trained rows that new rows are made from
new_rows        new rows: draws from the distribution of the trained rows, or means of subword tokens; their training on a text
model_copy      the copy of the folder, and the comparison of both folders byte by byte
repair_folder   all of this, in order, and repair.json
"""
