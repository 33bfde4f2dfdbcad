"""Downloads from servers that fail: does a file arrive whole, or does one line say why not?

Each trial fetches a source from two addresses, each of which changes its answers at random: cut, wrong, longer or shorter
content, ranges ignored or refused, errors, silence after a beginning, a length that lies, a connection that is reset. A part
of the file, or of another one, may exist already. After at most three calls from a server that has recovered the file must
be the right one. Nothing leaves this machine.
"""

import contextlib
import os
import random
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from tally import CORRECT, LOST, SILENT, TRACEBACK, Tally
from tiny.fetching import get, table
from tiny.file_server import Answer, FileServer, serving

from raretokens.errors import UserError

DATA = random.Random(1).randbytes(60_000)
ANSWERS = (
    "right", "cut", "wrong", "long", "short", "no-range", "416", "404", "500", "reset", "lying-length", "range-of-other",
)  # fmt: skip


@contextlib.contextmanager
def failing() -> Iterator[FileServer]:
    """Serve DATA at every address, wrong in some way until `is_well`."""

    def answered(_path: str, start: int) -> Answer:
        how = "right" if server.is_well else random.choice(ANSWERS)
        file = {"wrong": DATA[::-1], "long": DATA + b"more", "short": DATA[:40_000]}.get(how, DATA)
        if how in ("404", "500") or how == "416" and start:
            return Answer(error=int(how))
        answer = Answer(file, has_ranges=how != "no-range", is_reset=how == "reset")
        answer.missing, answer.misstated = 99 * (how == "lying-length"), 7 * (how == "range-of-other")
        if how in ("cut", "reset"):
            answer.sent = random.randrange(max(len(file) - start, 1))
        return answer

    with serving(FileServer(answered)) as server:
        server.is_well = True
        yield server


def trial(tally: Tally, server: FileServer, number: int) -> None:
    declared, into = table(DATA, urls=[f"{server.root}/{name}" for name in "ab"]), Path("data/raw/tiny")
    begun = random.choice((b"", DATA[: random.randrange(1, len(DATA))], os.urandom(random.randrange(1, 70_000))))
    if begun:
        part = Path("data/scratch/downloads/tiny/data.bin.part")
        part.parent.mkdir(parents=True)
        part.write_bytes(begun)
    server.is_well, what = False, f"trial {number}"
    for _ in range(4):
        try:
            get(declared)
        except UserError as error:
            if "\n" in str(error) or into.exists():
                return tally.add(SILENT, f"{what}: {error}")
            server.is_well = True
            continue
        except Exception:
            return tally.add(TRACEBACK, f"{what}: {traceback.format_exc(limit=-2)}")
        is_right = (into / "data.bin").read_bytes() == DATA and not [*Path().rglob("*.part")]
        return tally.add(CORRECT if is_right else SILENT, f"{what}: another file took its place")
    return tally.add(LOST, f"{what}: not fetched from a server that has recovered")


def downloads(tally: Tally, rounds: int) -> None:
    os.environ["NO_PROXY"] = "127.0.0.1"
    with failing() as server:
        for number in range(rounds):
            with contextlib.ExitStack() as around:
                around.enter_context(contextlib.chdir(around.enter_context(tempfile.TemporaryDirectory())))
                around.enter_context(contextlib.redirect_stderr(around.enter_context(open(os.devnull, "w"))))
                trial(tally, server, number)
