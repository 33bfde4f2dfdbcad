"""export: a trained run as a folder that other programs load."""

import argparse
from pathlib import Path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    one = commands.add_parser(
        "export",
        help="a trained run as a folder of transformers or CTranslate2",
        description="Writes a trained run as a folder that transformers loads without code of its own, with its tokenizer "
        "and a model card made from its scores; or as a folder of CTranslate2. Run from the folder of a scale.",
    )
    one.set_defaults(act=export)
    one.add_argument("run", metavar="RUN", help="such as mle, lm/mle or data/runs/lm/mle")
    one.add_argument("folder", type=Path, metavar="FOLDER", help="new or empty")
    one.add_argument("--to", choices=("transformers", "ctranslate2"), default="transformers")


def export(arguments: argparse.Namespace) -> None:
    from raretokens.tools import trained_run as finished
    from raretokens.tools.exporting import folder

    folder.write(finished.named(arguments.run), arguments.folder, arguments.to)
    print(arguments.folder)
