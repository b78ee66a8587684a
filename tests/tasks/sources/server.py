"""A web server on this machine that can misbehave in the ways that mirrors do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Mirror:
    """What is served under one path."""

    content: bytes
    ranges: bool = True  # honours requests for the rest of a file
    breaks: list[int] = field(default_factory=list)  # bytes after which each answer breaks off
    status: int | None = None  # an error to answer with
    asked: list[str | None] = field(default_factory=list)  # the Range header of every request


@dataclass
class Server:
    address: str
    mirrors: dict[str, Mirror]

    def add(self, path: str, mirror: Mirror) -> str:
        self.mirrors[path] = mirror
        return self.address + path


@contextmanager
def serving() -> Iterator[Server]:
    mirrors: dict[str, Mirror] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            mirror = mirrors[self.path]
            wanted = self.headers.get("Range")
            mirror.asked.append(wanted)
            start = int(wanted[6:-1]) if wanted and mirror.ranges else 0
            body = mirror.content[start:]
            if mirror.status is not None or (start and not body):
                self.send_error(mirror.status or 416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if mirror.breaks:
                body = body[: mirror.breaks.pop(0)]
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_port}", mirrors)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
