"""The command line: python -m raretokens COMMAND."""

import argparse
import sys
from collections.abc import Callable, Collection
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from raretokens.errors import exit_on_error

Argument = tuple[tuple[str, ...], dict[str, Any]]
CommandFunction = Callable[[argparse.Namespace], None]

# Audience -> command -> its function in a module of this folder, and its help line. Only the module of the given command is
# imported, because the libraries of other commands may not be installed.
AUDIENCES = {
    "for your own models and scores": {
        "measure": ("model_commands.measure", "Measure how degenerate embeddings are, and which of their rows are under-trained"),
        "export": ("model_commands.export", "Export a trained run to transformers or CTranslate2"),
        "claims": ("claim_commands.judge_claims", "Judge claims on any systems by their score files: intervals, q and verdicts"),
    },
    "in the folder of a scale of a clone, to plan and to run it": {
        "plan": ("plan_commands.show_plan", "Estimate parameters, tokens, FLOPs, hours, memory and disk of every run"),
        "check": ("plan_commands.try_runs", "Try a few training steps and an evaluation of each run at full size, on random ids"),
        "alpha": ("alpha_command.show_alpha", "Print the share of types and target tokens that each alpha of AGG makes rare"),
        "stages": ("scale_commands.show_stages", "Print the stages of dvc.yaml, a line for all runs of each"),
        "runs": ("scale_commands.show_runs", "Print the DVC targets of each run, a line for each run"),
        "cluster": ("scale_commands.submit", "Submit the scale to Slurm: what runs share, an array of runs, the reports"),
    },
    "in the folder of a scale of a clone, for its reports": {
        "table": ("scale_commands.show_table", "Write one report table and print it"),
        "needs": ("scale_commands.show_needs", "Print the DVC targets that a table needs"),
        "diff": ("scale_commands.show_diff", "Compare the reports with a git revision; exit 1 if a cell left its tolerance"),
        "verify": ("scale_commands.show_verification", "Check that code and parameters made the reports; exit 1 if not"),
        "adopt": ("scale_commands.adopt_code", "Accept changed code that is shown to do the same; exit 1 if it does not"),
        "trained": ("scale_commands.write_trained", "Write hours, machine and weights of each run to trained.csv"),
        "readme": ("scale_commands.refresh", "Update the pages of docs from the reports; --check: exit 1 if one is not current"),
    },
}
COMMANDS = {name: entry for commands in AUDIENCES.values() for name, entry in commands.items()}
FIRST = {next(iter(commands)): audience for audience, commands in AUDIENCES.items()}  # first command of each audience
CLONE = "pip install '.[pipeline]' in the clone"
# Command -> how to install what it needs; of other commands, all libraries of the pipeline.
INSTALL = {"measure": "pip install {library}", "claims": "pip install pandas pydantic pyyaml regex rich safetensors"}


class HelpByAudience(argparse.HelpFormatter):
    """Help with a heading before the first command of each audience."""

    def _format_action(self, action: argparse.Action) -> str:
        heading = f"\n  {FIRST[action.dest]}:\n" if action.dest in FIRST else ""
        return heading + super()._format_action(action)


class PrintCompletion(argparse.Action):
    """Print the completion script of a shell, with the commands whose libraries are installed."""

    def __call__(self, parser: argparse.ArgumentParser, _: object, shell: Any, option: str | None = None) -> None:
        import shtab

        complete = build_parser([name for name in COMMANDS if _is_installed(name)])
        for one in complete._subparsers._group_actions[0].choices.values():
            for given in one._actions:
                if given.choices is None and given.nargs != 0:
                    given.complete = shtab.FILE
        print(shtab.complete(complete, shell))
        parser.exit()


def _function(name: str) -> CommandFunction:
    module, function_name = COMMANDS[name][0].split(".")
    return getattr(import_module(f"raretokens.tools.{module}"), function_name)


def _is_installed(name: str) -> bool:
    try:
        return bool(_function(name))
    except ModuleNotFoundError:
        return False


def main() -> None:
    """Run the command of the arguments. Print a user's mistake as one line and exit with status 1."""
    name = sys.argv[1] if sys.argv[1:] else ""
    try:
        arguments = build_parser([name] if name in COMMANDS else []).parse_args()
        with exit_on_error():
            arguments.function(arguments)
    except ModuleNotFoundError as error:
        if (error.name or "raretokens").startswith("raretokens"):
            raise
        install = INSTALL.get(name, CLONE if name in COMMANDS else INSTALL["measure"])
        library = error.name.partition(".")[0]
        sys.exit(f"error: {library} is not installed: {install.format(library=library)}")


def build_parser(names: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """Build the parser of all commands, with the arguments of the commands `names`."""
    parser = argparse.ArgumentParser(
        prog="raretokens",
        description=f"Measure and train models whose rare tokens matter. Commands of a clone need {CLONE}.",
        formatter_class=HelpByAudience,
    )
    parser.add_argument("--version", action="version", version=f"raretokens {_version()}")
    parser.add_argument(
        "--print-completion", choices=("bash", "zsh", "tcsh"), action=PrintCompletion, help="print the completion of a shell"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, (_, line) in COMMANDS.items():
        one = commands.add_parser(name, help=line, description=f"{line}.")
        if name in names:
            function = _function(name)
            one.set_defaults(function=function)
            one.description = function.__doc__ or one.description
            for flags, settings in getattr(function, "arguments", ()):
                one.add_argument(*flags, **settings)
    return parser


def _version() -> str:
    try:
        return metadata.version("raretokens")
    except metadata.PackageNotFoundError:
        return "of a clone that is not installed"


def argument(*flags: str, **settings: Any) -> Argument:
    """Return an argument of a command, with the parameters of argparse's add_argument()."""
    return flags, settings


def number(kind: type[int] | type[float], may_be_0: bool = False) -> Callable[[str], float]:
    """Return the type of an argument that is a positive number, or 0 if that is allowed."""

    def read(text: str) -> float:
        value = kind(text)
        if value > 0 or may_be_0 and value == 0:
            return value
        raise argparse.ArgumentTypeError(f"{text} is not allowed: should be {'0 or more' if may_be_0 else 'more than 0'}")

    read.__name__ = kind.__name__  # for argparse's message on text that is no number
    return read


def output_file(text: str) -> Path:
    """The type of an argument that names a file to write. What is wrong is told before anything is computed for it."""
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; should be a file")
    return Path(text)


def command(*declared: Argument) -> Callable[[CommandFunction], CommandFunction]:
    """Declare the arguments of a command. Its docstring is the description in --help."""

    def declare(function: CommandFunction) -> CommandFunction:
        function.arguments = declared
        return function

    return declare
