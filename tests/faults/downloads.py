"""Downloads from servers that fail: does a file arrive whole, or does one line say why not?

Each trial fetches a source from two addresses, each of which changes its answers at random: cut, wrong, longer or shorter
content, ranges ignored or refused, errors, silence after a beginning, a length that lies, a connection that is reset. A part
of the file, or of another one, may exist already. After at most three calls from a server that has recovered the file must
be the right one. Nothing leaves this machine.
"""

import contextlib
import hashlib
import os
import random
import re
import socket
import struct
import tempfile
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml
from tally import CORRECT, LOST, SILENT, TRACEBACK, Tally

from raretokens.errors import UserError
from reproduction.corpora.download import fetch

DATA = random.Random(1).randbytes(60_000)
ANSWERS = (
    "right", "cut", "wrong", "long", "short", "no-range", "416", "404", "500", "reset", "lying-length", "range-of-other",
)  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = "right" if self.server.is_well else random.choice(ANSWERS)
        body = {"wrong": DATA[::-1], "long": DATA + b"more", "short": DATA[:40_000]}.get(answer, DATA)
        if answer in ("404", "500"):
            return self.send_error(int(answer))
        start = int((re.findall(r"bytes=(\d+)-", self.headers.get("Range") or "") or [0])[0])
        if start and answer == "416" or start >= len(body):
            return self.send_error(416)
        if start and answer != "no-range":
            self.send_response(206)
            said = max(start - 7, 0) if answer == "range-of-other" else start
            self.send_header("Content-Range", f"bytes {said}-{len(body) - 1}/{len(body)}")
            body = body[start:]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) + (99 if answer == "lying-length" else 0)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body[: random.randrange(len(body))] if answer in ("cut", "reset") else body)
            if answer == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
        return None

    def log_message(self, *_: object) -> None:
        pass


def trial(tally: Tally, server: ThreadingHTTPServer, number: int) -> None:
    row = {"name": "data.bin", "bytes": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
    row["urls"] = [f"http://127.0.0.1:{server.server_port}/{name}" for name in "ab"]
    table, into = Path("table"), Path("data/raw/tiny")
    table.mkdir()
    (table / "tiny.yaml").write_text(yaml.safe_dump({"licence": "-", "note": "-", "limit": 10**6, "files": [row]}))
    begun = random.choice((b"", DATA[: random.randrange(1, len(DATA))], os.urandom(random.randrange(1, 70_000))))
    if begun:
        part = Path("data/scratch/downloads/tiny/data.bin.part")
        part.parent.mkdir(parents=True)
        part.write_bytes(begun)
    server.is_well, what = False, f"trial {number}"
    for _ in range(4):
        try:
            fetch("tiny", into, table=table)
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
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    for number in range(rounds):
        with contextlib.ExitStack() as around:
            around.enter_context(contextlib.chdir(around.enter_context(tempfile.TemporaryDirectory())))
            around.enter_context(contextlib.redirect_stderr(around.enter_context(open(os.devnull, "w"))))
            trial(tally, server, number)
    server.shutdown()
    server.server_close()
