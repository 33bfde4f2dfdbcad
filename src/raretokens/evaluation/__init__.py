"""From a trained run to its score file.

`config` has the job specs. `language_model`, `recurrent`, `translate` and `classification` predict the test text. `artifacts`
reads what a run has written; `metrics/` measures; `geometry`, `history` and `score` combine metrics; `score_files` writes them.
"""
