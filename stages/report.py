"""report: reports/runs/ and data/paper/ -> the tables, figures, claims and index of a scale.

`report --readme FILE` takes the tables that a text includes anew from the reports instead.
"""

import sys
from pathlib import Path

from raretokens import config
from raretokens.tables import declarations, report


def main() -> None:
    if sys.argv[1:2] == ["--readme"]:
        if len(sys.argv) != 3:
            raise config.UserError("report --readme FILE: name one text")
        readme = Path(sys.argv[2])
        if not readme.is_file():
            raise config.UserError(f"{readme}: no such file")
        readme.write_text(report.refresh(readme.read_text(encoding="utf-8"), readme.parent), encoding="utf-8")
        return
    parameters = config.load()
    printed = Path(parameters.root) / "data/paper"
    verdicts = report.write(parameters, declarations.read(printed), printed, Path("reports"))
    print(f"report: reports/index.md; claims: {verdicts}")


if __name__ == "__main__":
    config.main(main)
