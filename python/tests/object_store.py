"""A store of objects on loopback, as much of S3 as a dataset of Arrow's asks for: one bucket, one file. It can be told to
answer 503, or to end in the middle of what it sends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Store:
    """What it answers.

    Attributes:
        mode: ``whole``, ``busy`` (503) or ``cut``.
    """

    def __init__(self, content: bytes) -> None:
        self.content, self.mode, self.port = content, "whole", 0

    def url(self, user: str = "") -> str:
        return f"s3://{user}bucket/nodes.parquet?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"


@contextmanager
def object_store(content: bytes) -> Iterator[Store]:
    """One that serves these bytes as ``bucket/nodes.parquet``."""
    store = Store(content)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(200, store.content, send=False)

        def do_GET(self) -> None:
            begin, _, end = self.headers.get("Range", f"bytes=0-{len(store.content) - 1}").partition("=")[2].partition("-")
            self._answer(206, store.content[int(begin) : int(end) + 1], send=True)

        def _answer(self, code: int, body: bytes, send: bool) -> None:
            code = 503 if store.mode == "busy" else code if self.path.startswith("/bucket/nodes.parquet") else 404
            body = body if code < 400 else b""
            self.send_response(code)
            for name, value in (("Content-Length", str(len(body))), ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT"), ("ETag", '"1"')):
                self.send_header(name, value)
            self.end_headers()
            if send:
                self.wfile.write(body[: len(body) // 2] if store.mode == "cut" else body)
                self.close_connection = store.mode == "cut"

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    store.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
