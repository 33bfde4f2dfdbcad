"""The command line, `raretokens COMMAND`, and the declaration of commands for any program."""

import argparse
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from raretokens.errors import exit_on_error

Argument = tuple[tuple[str, ...], dict[str, Any]]
CommandFunction = Callable[[argparse.Namespace], None]


@dataclass(frozen=True)
class Program:
    """Commands of a program. Only the module of the given command is imported, because others may need more libraries."""

    name: str
    description: str
    audiences: Mapping[str, Mapping[str, tuple[str, str]]]  # heading -> command -> its `module:function`, and its help line
    install: Callable[[str, str], str]  # command and library -> how to install what the command needs

    @property
    def commands(self) -> dict[str, tuple[str, str]]:
        return {name: entry for commands in self.audiences.values() for name, entry in commands.items()}

    def run(self) -> None:
        """Run the command of the arguments. Print a user's mistake as one line and exit with status 1."""
        name = sys.argv[1] if sys.argv[1:] else ""
        try:
            arguments = self.parser([name] if name in self.commands else []).parse_args()
            with exit_on_error():
                arguments.function(arguments)
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if not library or library in (one.partition(".")[0] for one, _ in self.commands.values()):
                raise
            sys.exit(f"error: {library} is not installed: {self.install(name, library)}")

    def parser(self, names: Collection[str] = ()) -> argparse.ArgumentParser:
        """Build the parser of all commands, with the arguments of the commands `names`."""
        first = {next(iter(commands)): heading for heading, commands in self.audiences.items() if heading}

        class Help(argparse.HelpFormatter):
            """Help with a heading before the first command of each audience."""

            def _format_action(self, action: argparse.Action) -> str:
                return (f"\n  {first[action.dest]}:\n" if action.dest in first else "") + super()._format_action(action)

        parser = argparse.ArgumentParser(prog=self.name, description=self.description, formatter_class=Help)
        parser.add_argument("--version", action="version", version=f"raretokens {_version()}")
        if " " not in self.name:  # a shell completes the first word alone
            parser.add_argument("--print-completion", choices=("bash", "zsh", "tcsh"), action=self._completion(),
                                help="print the completion of a shell")  # fmt: skip
        commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
        for name, (_, line) in self.commands.items():
            one = commands.add_parser(name, help=line, description=f"{line}.")
            if name in names:
                function = self._function(name)
                one.set_defaults(function=function)
                one.description = function.__doc__ or one.description
                for flags, settings in getattr(function, "arguments", ()):
                    one.add_argument(*flags, **settings)
        return parser

    def _completion(program: "Program") -> type[argparse.Action]:  # noqa: N805, the action has a `self` of its own
        class PrintCompletion(argparse.Action):
            """Print the completion script of a shell, with the commands whose libraries are installed."""

            def __call__(self, parser: argparse.ArgumentParser, _: object, shell: Any, option: str | None = None) -> None:
                import shtab

                complete = program.parser([name for name in program.commands if program._is_installed(name)])
                for one in complete._subparsers._group_actions[0].choices.values():
                    for given in one._actions:
                        if given.choices is None and given.nargs != 0:
                            given.complete = shtab.FILE
                print(shtab.complete(complete, shell))
                parser.exit()

        return PrintCompletion

    def _function(self, name: str) -> CommandFunction:
        module, function = self.commands[name][0].split(":")
        return getattr(import_module(module), function)

    def _is_installed(self, name: str) -> bool:
        try:
            return bool(self._function(name))
        except ModuleNotFoundError:
            return False


RARETOKENS = Program(
    "raretokens",
    "Measure and repair models, and judge claims on any systems by their scores.",
    {
        "": {
            "measure": (
                "raretokens.measure.commands:measure",
                "Measure how degenerate embeddings are, and which of their rows are under-trained",
            ),
            "repair": (
                "raretokens.measure.commands:repair",
                "Initialise under-trained rows of a model folder anew, in a copy of the folder",
            ),
            "claims": (
                "raretokens.claims.command:judge_claims",
                "Compare two systems, or judge claims on any, by score files: intervals, q and verdicts",
            ),
        }
    },
    lambda command, library: "pip install pandas pydantic pyyaml rich" if command == "claims" else f"pip install {library}",
)


def main() -> None:
    """Run `raretokens COMMAND`."""
    RARETOKENS.run()


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands with all arguments, for the documentation."""
    return RARETOKENS.parser(RARETOKENS.commands)


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
