"""Has a stage run by the process that has the libraries imported (pipeline/warm.py): ask.py SOCKET STAGE [ARGUMENT...].

Lends it standard input, output and error, waits, and exits as the stage did. When this process or its parent goes, the stage is
killed. Where nobody listens or the stage is refused, this process becomes the stage itself. Starts in 20 ms: no library here.
"""

import json
import os
import select
import socket
import sys


def main(path: str, *arguments: str) -> None:
    word = asked(path, arguments)
    if word == "no":
        os.execv(sys.executable, [sys.executable, "-m", "raretokens.pipeline", *arguments])
    sys.exit(int(word or 1))


def asked(path: str, arguments: tuple[str, ...]) -> str:
    """The stage's exit code, `no`, or nothing where somebody went."""
    parent = os.getppid()
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(path)
            socket.send_fds(server, [b" "], [0, 1, 2])
        except OSError:
            return "no"
        what = {"folder": os.getcwd(), "environment": dict(os.environ), "arguments": arguments}
        server.sendall(json.dumps(what).encode() + b"\n")
        while not select.select([server], [], [], 1.0)[0]:
            if os.getppid() != parent:
                return ""
        return server.recv(16).decode().strip()


if __name__ == "__main__":
    main(*sys.argv[1:])
