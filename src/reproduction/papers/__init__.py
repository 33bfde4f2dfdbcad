"""What papers report and conclude, read from data/paper and checked, and what the runs of the pipeline say about it.

`load` reads the declarations: `table`, `claim`, `setting`. `task_scores` reads the score files of runs. `verdicts` chooses the
setting of a claim and judges the claim with raretokens.claims. `methods` and `logit_bias` compare methods. `claim_history` guards
against unrecorded changes of claims.
"""
