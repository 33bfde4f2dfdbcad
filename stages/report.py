"""report: reports/runs/ and data/paper/ -> the tables, figures, claims and index of a scale.

`report --table ID` writes and prints one table, `report --needs ID` the DVC targets that this table needs.
`report --readme FILE` takes the tables that a text includes anew from the reports instead.
"""

import sys
from pathlib import Path

from raretokens import config
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.reporting import report
from raretokens.reporting.declarations import reading
from raretokens.reporting.sheet import Sheet
from raretokens.reporting.tables import include

REPORTS = Path("reports")
OPTIONS = {"--readme": "name one text", "--table": "name one table", "--needs": "name one table"}


def main() -> None:
    option, *rest = sys.argv[1:] or [""]
    if option and option not in OPTIONS:
        raise UserError(f"report: unknown option {option}; it has {', '.join(OPTIONS)}")
    if option and len(rest) != 1:
        raise UserError(f"report {option}: {OPTIONS[option]}")
    if option == "--readme":
        refresh(Path(rest[0]))
        return
    parameters = config.load()
    sheet, declared = Sheet.of(parameters), reading.read(Path(parameters.root) / "data/paper")
    if option == "--table":
        print(report.one_table(rest[0], sheet, declared, REPORTS), end="")
    elif option == "--needs":
        print(*report.needed(rest[0], sheet, declared, REPORTS))
    else:
        verdicts = report.write(sheet, declared, REPORTS)
        print(f"report: reports/index.md; claims: {verdicts}")


def refresh(readme: Path) -> None:
    if not readme.is_file():
        raise UserError(f"{readme}: no such file")
    write_text(readme, include.refresh(readme.read_text(encoding="utf-8"), readme.parent))


if __name__ == "__main__":
    config.main(main)
