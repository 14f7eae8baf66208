"""A model hub on this machine, as small as it can be: for downloads that leave no machine."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "c" * 40


class Hub(BaseHTTPRequestHandler):
    """Serves one folder as the repository `owner/model`, and nothing else."""

    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, *arguments) -> None:
        self.folder = folder
        super().__init__(*arguments)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/")
        resolve = f"owner/model/resolve/{COMMIT}/"
        names = sorted(file.name for file in self.folder.iterdir())
        if path.startswith("api/models/owner/model/revision/"):
            siblings = [{"rfilename": name} for name in names]
            self.answer(200, {"id": "owner/model", "sha": COMMIT, "siblings": siblings})
        elif path.startswith("api/models/owner/model/tree/"):
            files = [
                {
                    "type": "file",
                    "path": name,
                    "oid": self.tag(name),
                    "size": (self.folder / name).stat().st_size,
                }
                for name in names
            ]
            self.answer(200, files)
        elif path.startswith(resolve) and path.removeprefix(resolve) in names:
            self.file(path.removeprefix(resolve))
        else:
            self.answer(404, {"error": "no such thing"}, {"X-Error-Code": "RepoNotFound"})

    def tag(self, name: str) -> str:
        return hashlib.sha1((self.folder / name).read_bytes()).hexdigest()

    def file(self, name: str) -> None:
        headers = {"ETag": f'"{self.tag(name)}"', "X-Repo-Commit": COMMIT}
        self.send((self.folder / name).read_bytes(), 200, headers)

    def answer(self, status: int, data, headers: dict[str, str] | None = None) -> None:
        self.send(json.dumps(data).encode(), status, headers or {})

    def send(self, body: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *arguments) -> None:
        pass


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The address of a hub that holds `folder` as `owner/model`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
