"""Predict the test text with a trained run, compute its metrics and write its score file.

`config` defines the job specs. `language_model`, `recurrent`, `translate` and `classification` predict the test text.
`artifacts` reads the files of a run. `metrics/` contains the metrics, which `geometry`, `history` and `score` combine.
`score_files` writes the results.

Functions that predict have the same parameters: `folder` has the token files, `trained` the trained model, and the results are
written to `into`.
"""
