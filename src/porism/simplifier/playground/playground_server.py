"""Playground server: a page on this machine alone, which simplifies expressions and proves rules.

It listens on the loopback address only. A question has at most MAX_QUESTION bytes, and is answered
by a process of its own, which is ended after SECONDS. A connection that is silent for as long is
closed. Requests whose Host is another name are refused, so that no page of the web can ask through
a name that leads here.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from porism.base.errors import PorismError

ADDRESS: Final = "127.0.0.1"
MAX_QUESTION: Final = 4000
"""Bytes of a question."""
SECONDS: Final = 10.0
"""Time for an answer."""
WORKERS: Final = 2
"""Questions that are answered at the same time; others wait."""
WORKER: Final = "porism.simplifier.playground.playground_worker"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FILES: Final = {
    "/": ("playground.html", "text/html; charset=utf-8"),
    "/playground.js": ("playground.js", "text/javascript; charset=utf-8"),
    "/playground.css": ("playground.css", "text/css; charset=utf-8"),
}

_slots = threading.BoundedSemaphore(WORKERS)


def ask(question: bytes, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the answer of a worker process to a question in JSON."""
    with _slots:
        try:
            done = subprocess.run(
                [sys.executable, "-m", WORKER],
                input=question,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"no answer was found in {seconds:g} seconds"}
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"error": "the question could not be answered: it needs too much memory"}
    return answer


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of the page."""

    server_version = "porism"
    sys_version = ""
    timeout = SECONDS

    def do_GET(self) -> None:
        """Send a file of the page."""
        if not self._is_local():
            return
        if self.path not in FILES:
            self._send(404, "text/plain", b"there is no such page")
            return
        name, kind = FILES[self.path]
        self._send(200, kind, Path(__file__).with_name("page").joinpath(name).read_bytes())

    def do_POST(self) -> None:
        """Answer a question."""
        if not self._is_local():
            return
        length = _length(self.headers.get("Content-Length", ""))
        if self.path != "/ask" or self.headers.get("Content-Type") != "application/json":
            self._send(404, "text/plain", b"questions are JSON, and go to /ask")
        elif length is None:
            self.close_connection = True
            self._send(413, "text/plain", f"at most {MAX_QUESTION} bytes".encode())
        else:
            question = self.rfile.read(length)
            try:
                is_question = isinstance(json.loads(question), dict)
            except (ValueError, RecursionError):
                is_question = False
            answer = ask(question) if is_question else {"error": "this is no question in JSON"}
            self._send(200, "application/json", json.dumps(answer).encode())

    def _is_local(self) -> bool:
        """Refuse a request that names another host than this one."""
        host = self.headers.get("Host", "").partition(":")[0]  # without the port
        if host in (ADDRESS, "localhost"):
            return True
        self._send(403, "text/plain", b"this page is for this machine alone")
        return False

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        with contextlib.suppress(ConnectionError):  # the page was closed meanwhile
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing for each request."""


def _length(text: str) -> int | None:
    """Return the number of bytes that a header announces; None if it is none, or too large.

    >>> _length("12"), _length("4001"), _length("-1"), _length("²")
    (12, None, None, None)
    """
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_QUESTION)):
        return None
    return int(text) if int(text) <= MAX_QUESTION else None


def new_server(port: int) -> ThreadingHTTPServer:
    """Return a server on a port of this machine; port 0 is any that is free."""
    try:
        return ThreadingHTTPServer((ADDRESS, port), Handler)
    except (OSError, OverflowError) as error:
        raise PorismError(
            f"port {port} cannot be used",
            where="porism serve",
            why=str(error),
            fix="name another one with --port, or 0 for any that is free",
        ) from None


def serve(port: int, ready: Callable[[str], None] = print) -> int:
    """Serve the page until Ctrl-C; return the exit status."""
    with new_server(port) as server:
        ready(f"http://{ADDRESS}:{server.server_address[1]}/")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0
