"""A server that answers as the Hugging Face Hub does: the description of a model, and its files, also in ranges of bytes."""

import json
import re
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
API = re.compile(r"/api/models/(?P<model>[^/]+/[^/]+)(?:/revision/(?P<revision>.+))?")
RESOLVE = re.compile(r"/(?P<model>[^/]+/[^/]+)/resolve/(?P<commit>[^/]+)/(?P<file>.+)")


class HubServer(ThreadingHTTPServer):
    """Serves the folders of `root` as models owner/name, at the revisions main and COMMIT.

    Requests for files of a model called `gated` or `forbidden` are refused. For `whole`, ranges of bytes are ignored.
    """

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.sent: Counter[str] = Counter()  # bytes of each file
        self.requests: list[str] = []
        self.breaks: list[bool] = []  # whether the next answers from the storage end early

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: HubServer

    def do_GET(self) -> None:
        path = unquote(self.path.split("?")[0])
        if path.count("/") > 2:  # else a request of huggingface_hub that concerns no model
            self.server.requests.append(path)
        if match := API.fullmatch(path):
            self._describe(match["model"], match["revision"] or "main")
        elif match := RESOLVE.fullmatch(path):
            self._resolve(match["model"], match["file"], path)
        elif path.startswith("/storage/"):
            self._send(self.server.root / path.removeprefix("/storage/"))
        else:
            self._refuse(404, "")

    def _describe(self, model: str, revision: str) -> None:
        folder = self.server.root / model
        if not folder.is_dir():
            self._refuse(401, "RepoNotFound")
        elif revision not in ("main", COMMIT):
            self._refuse(404, "RevisionNotFound")
        else:
            files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
            content = {"id": model, "sha": COMMIT, "siblings": [{"rfilename": file} for file in files]}
            self._answer(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _resolve(self, model: str, file: str, path: str) -> None:
        if model.endswith("/gated"):
            self._refuse(403, "GatedRepo")
        elif model.endswith("/forbidden"):
            self._refuse(403, "")
        elif file.endswith(".safetensors"):  # large files are in a storage of their own
            self._answer(302, b"", {"Location": f"{self.server.url}/storage/{model}/{file}", "X-Repo-Commit": COMMIT})
        else:
            self._send(self.server.root / model / file)

    def _send(self, path: Path) -> None:
        content, headers, status = path.read_bytes(), {}, 200
        name = f"{path.parent.name}/{path.name}"
        if (given := self.headers["Range"]) and path.parent.name != "whole":
            first, last = map(int, given.removeprefix("bytes=").split("-"))
            size, content, status = len(content), content[first : last + 1], 206
            headers["Content-Range"] = f"bytes {first}-{first + len(content) - 1}/{size}"
        self._answer(status, content, headers, name)

    def _answer(self, status: int, content: bytes, headers: dict[str, str], name: str = "") -> None:
        self.send_response(status)
        for key, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(key, value)
        self.end_headers()
        if name.endswith(".safetensors") and self.server.breaks and self.server.breaks.pop(0):
            content, self.close_connection = content[: len(content) // 2], True
        try:
            for start in range(0, len(content), 1 << 16):
                self.server.sent[name] += self.wfile.write(content[start : start + (1 << 16)])
        except ConnectionError:  # the client has read enough
            self.close_connection = True

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, b"", {"X-Error-Code": code})

    def log_message(self, format: str, *arguments: object) -> None:
        pass
