"""How many claims of each paper came to which verdict."""

import pandas as pd

from raretokens.reporting.claims.verdict import VERDICTS, Verdict

OURS = "readings, controls and experiments of ours"


def counts(verdicts: list[Verdict]) -> str:
    """CSV: a line for each paper's conclusions, for what is of ours, and for all; what fails or was left out stands first."""
    papers = [OURS if verdict.is_ours else verdict.paper for verdict in verdicts]
    kinds = [verdict.verdict for verdict in verdicts]
    table = pd.crosstab(papers, kinds, rownames=["paper"], colnames=[None], margins=True, margins_name="all")
    ordered = table.reindex(
        index=[*sorted(dict.fromkeys(papers), key=OURS.__eq__), "all"], columns=[*VERDICTS, "all"], fill_value=0
    )
    return ordered.rename_axis("paper").rename(columns={"all": "claims"}).to_csv(lineterminator="\n")
