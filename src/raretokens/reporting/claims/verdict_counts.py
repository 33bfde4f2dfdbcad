"""How many claims of each paper came to which verdict."""

import pandas as pd

from raretokens.reporting.claims.verdict import VERDICTS, Verdict


def counts(verdicts: list[Verdict]) -> str:
    """CSV: a line for each paper and one for all; what fails or was left out stands before what holds."""
    papers = [verdict.paper for verdict in verdicts]
    kinds = [verdict.verdict for verdict in verdicts]
    table = pd.crosstab(papers, kinds, rownames=["paper"], colnames=[None], margins=True, margins_name="all")
    ordered = table.reindex(index=[*dict.fromkeys(papers), "all"], columns=[*VERDICTS, "all"], fill_value=0)
    return ordered.rename_axis("paper").rename(columns={"all": "claims"}).to_csv(lineterminator="\n")
