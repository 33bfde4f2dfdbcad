"""What a table needs to be made: the DVC targets of the runs that its own rows name."""

from raretokens.reporting.declarations.schema import Table
from raretokens.reporting.scored import Scores


def targets(table: Table, scores: dict[str, Scores]) -> list[str]:
    """`score-lm@mle`, ... for the runs on the run sheet, and `score-data` for rows that need no model."""
    wanted = [(table.task, row.names(column), row.data) for row in table.rows for column in table.columns]
    wanted += [(table.task, row.runs, False) for row in table.rows if table.neighbours]
    wanted += [
        (subject.task or table.task, fact.names(subject), subject.data)
        for subject in table.subjects
        for fact in table.facts
    ]
    found = []
    for task, names, data in wanted:
        stem = None if data else scores[task].choose(names)
        found += [f"score-{task}@{stem}"] if stem else ["score-data"] if data and names else []
    return sorted(dict.fromkeys(found), key="score-data".__eq__)
