"""The command that exports a trained run."""

import argparse
from pathlib import Path

from raretokens.cli import argument, command


@command(
    argument("run", metavar="RUN", help="such as mle, lm/mle or data/runs/lm/mle"),
    argument("folder", type=Path, metavar="FOLDER", help="new or empty"),
    argument("--to", choices=("transformers", "ctranslate2"), default="transformers", help="default: transformers"),
)  # fmt: skip
def export(arguments: argparse.Namespace) -> None:
    """Export a trained run as a folder that transformers loads without custom code, or as a folder of CTranslate2. For
    transformers, add the tokenizer and a model card with the run's scores. Run this command in the folder of a scale."""
    from reproduction.commands import trained_run
    from reproduction.commands.export import export_run

    export_run(trained_run.find(arguments.run), arguments.folder, arguments.to)
    print(arguments.folder)
