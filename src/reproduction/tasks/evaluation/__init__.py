"""Predict the test text with a trained run, compute its metrics and write its score file.

`job_specs` defines the job specs. `language_model`, `recurrent`, `translate` and `classification` predict the test text.
`artifacts` reads the files of a run. The metrics are those of raretokens.metrics, and of `bleu`, `text` and `word_recall` here.
`geometry`, `history` and `score` combine them.

Functions that predict have the same parameters: `folder` has the token files, `trained` the trained model, and the results are
written to `into`.
"""
