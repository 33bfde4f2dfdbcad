"""The command line: python -m raretokens COMMAND."""

import argparse
import sys
from importlib import import_module

from raretokens.errors import exit_on_error

# Command -> module of this folder with its add_<command>(), and the help line. Only the module of the command that runs is
# imported: its libraries may be missing.
COMMANDS = {
    "measure": ("model_commands", "Measure how degenerate a model's embeddings are, and which rows are under-trained"),
    "export": ("model_commands", "Export a trained run to transformers or CTranslate2"),
    "plan": ("plan_commands", "Estimate parameters, tokens, FLOPs, hours, memory and disk of every run"),
    "check": ("plan_commands", "Try two training steps and an evaluation of each run at full size, on random ids"),
    "alpha": ("plan_commands", "Print the share of types and target tokens that each alpha of AGG makes rare"),
    "stages": ("pipeline_commands", "Print the stages of dvc.yaml, a line for all runs of each"),
    "runs": ("pipeline_commands", "Print the DVC targets of each run, a line for each run"),
    "cluster": ("pipeline_commands", "Submit the scale to Slurm: what runs share, an array of runs, the reports"),
    "table": ("report_commands", "Write one report table and print it"),
    "needs": ("report_commands", "Print the DVC targets that a table needs"),
    "readme": ("report_commands", "Refresh the tables that a text includes from the reports"),
    "verify": ("report_commands", "Check that the reports belong to this code and these parameters; exit 1 if not"),
    "adopt": (
        "report_commands",
        "Let dvc.lock name this code if it is shown to do what a revision's code did; exit 1 if not",
    ),
    "trained": ("report_commands", "Write hours, machine and weights of each run to trained.csv"),
    "scales": ("report_commands", "Write every claim at every scale to a folder"),
    "diff": ("report_commands", "Compare the reports with a git revision; exit 1 if a cell left its tolerance"),
}
EXTRA = "pip install 'raretokens[pipeline]'"


def main() -> None:
    """Run the command that the arguments name; a user's mistake is one line and exits 1."""
    name = sys.argv[1] if sys.argv[1:] else ""
    try:
        arguments = build_parser([name] if name in COMMANDS else []).parse_args()
        with exit_on_error():
            arguments.function(arguments)
    except ModuleNotFoundError as error:
        if (error.name or "raretokens").startswith("raretokens"):
            raise
        sys.exit(f"error: {error.name} is not installed: {EXTRA}")


def build_parser(names: list[str]) -> argparse.ArgumentParser:
    """Build the parser of all commands, with the arguments of those named."""
    parser = argparse.ArgumentParser(
        prog="raretokens",
        description="Measure and train models whose rare tokens matter. All commands but measure work in the folder of a "
        f"scale, and need {EXTRA}.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (module, line) in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=f"{line}.")
        if name in names:
            getattr(import_module(f"raretokens.tools.{module}"), f"add_{name}")(command)
    return parser
