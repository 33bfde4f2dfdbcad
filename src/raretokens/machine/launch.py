"""Several processes for one run: the machine's `launch` command, such as torch's own launcher, starts the stage again."""

import os
import shlex
import sys

from raretokens.errors import UserError
from raretokens.paths import MACHINE

LAUNCHED = "RARETOKENS_LAUNCHED"
EXAMPLE = "torchrun --standalone --nproc-per-node 8"


def launch(command: str) -> None:
    """Replace this process by the command with the stage behind it; in the processes that it starts, only return.

    The command must set RANK and its kin, as torchrun does; variables of the environment in it ($SLURMD_NODENAME) are put in. It
    is looked for beside this Python first. Without a command nothing happens.
    """
    if not command or "RANK" in os.environ:
        return
    if LAUNCHED in os.environ:
        raise UserError(f"{MACHINE}: launch: {command!r} started a process without a rank; allowed: such as {EXAMPLE}")
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))
    words = [*map(os.path.expandvars, shlex.split(command)), *sys.argv]
    sys.stdout.flush()
    try:
        os.execvpe(words[0], words, {**os.environ, "PATH": path, LAUNCHED: "1"})
    except OSError as error:
        reason = f"{words[0]} cannot be started ({error.strerror})"
        raise UserError(f"{MACHINE}: launch: {command!r}: {reason}; allowed: such as {EXAMPLE}") from None
