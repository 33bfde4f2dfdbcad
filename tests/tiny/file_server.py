"""A server of files, whole or from some byte on, whose answers may be wrong."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TypeVar

Server = TypeVar("Server", bound=ThreadingHTTPServer)


@dataclass
class Answer:
    """A file, and what is wrong with its answer."""

    file: bytes = b""
    error: int = 0  # status instead of the file
    has_ranges: bool = True
    misstated: int = 0  # bytes by which a range is said to begin too early
    missing: int = 0  # bytes that are announced, but not there
    sent: int | None = None  # bytes after which the connection ends
    is_reset: bool = False  # so that the client has an error, not an end
    pause: float = 0.0  # seconds after each part


class FileServer(ThreadingHTTPServer):
    """Asks `answer` for the answer to a path from a byte on, and keeps each path with its header Range in `seen`."""

    daemon_threads = True

    def __init__(self, answer: Callable[[str, int], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.root = f"http://127.0.0.1:{self.server_port}"
        self.seen: list[tuple[str, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        given = self.headers.get("Range")
        self.server.seen.append((self.path, given))
        start = int(given.removeprefix("bytes=").removesuffix("-")) if given else 0
        answer = self.server.answer(self.path, start)
        if answer.error or start >= len(answer.file):
            return self.send_error(answer.error or 416)
        body = answer.file
        if start and answer.has_ranges:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {max(start - answer.misstated, 0)}-{len(body) - 1}/{len(body)}")
            body = body[start:]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) + answer.missing))
        self.end_headers()
        body = body[: answer.sent]
        with contextlib.suppress(OSError):  # the client may be gone
            for place in range(0, len(body), 20_000):
                self.wfile.write(body[place : place + 20_000])
                time.sleep(answer.pause)
            if answer.is_reset:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
        return None

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(made: Server) -> Iterator[Server]:
    """Let a server answer in a thread of its own."""
    with made as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()
