"""From a trained run to its score file: predictions on the test text, metrics over them, and the file itself.

`config` holds the job specs, `probe`, `recurrent`, `translate` and `predict` ask the model, `artifacts` reads what a run left,
`metrics/` measures, `score` and `score_files` write the scores.
"""
