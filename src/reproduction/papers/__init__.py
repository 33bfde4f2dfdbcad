"""What papers report and conclude, read from data/paper and checked, and what the runs of the pipeline say about it.

`load` reads the declarations: `table`, `figure`, `claim`, `setting`. `task_scores` reads the score files of runs,
`nearest_setting` chooses the runs of a claim, and `verdicts` judges it with raretokens.claims. `methods`,
`decomposition_effects` and `logit_bias` compare methods. `claim_history` guards against unrecorded changes of claims.
"""
