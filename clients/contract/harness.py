"""Service, tokens and proxy for tests of the clients.

The proxy chooses a fault by the first part of the path, and records the requests of each idempotency key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import secrets
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Seconds until a service must be ready.
START_MAX = 30.0
LATE = 1.5


def token(secret: str, user: str, scope: str) -> str:
    """Token of a user, valid for an hour."""

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    now = int(time.time())
    claims = {"sub": user, "scope": scope, "iat": now, "exp": now + 3600}
    signed = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps(claims).encode())
    return (signed + b"." + part(hmac.new(secret.encode(), signed, hashlib.sha256).digest())).decode()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Service:
    """Node with an embedded engine on a free port, in a folder of its own. It stops on exit."""

    def __init__(self, program: Path, folder: Path, **settings: str) -> None:
        self.secret = secrets.token_hex(32)
        self.log = folder / "service.log"
        (folder / "secret").write_text(self.secret)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        env = {
            "QIANG__AUTH__HS256_SECRET_FILE": "secret",
            "QIANG__ADMIN__LISTEN": "server",
            "QIANG__SERVER__DRAIN_DELAY_MS": "0",
            # Endpoints of the tests are on this machine.
            "QIANG__WEBHOOKS__ALLOW_PRIVATE": "true",
            "QIANG__WEBHOOKS__RETRY_MS": "100",
            "QIANG__LOG__LEVEL": "warn",
            **settings,
        }
        # The kernel kills the service if this process dies.
        line = ["setpriv", "--pdeathsig", "KILL", "--", str(program), "serve"]
        line += ["--listen", f"127.0.0.1:{port}", "--data", "qiang.db"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(line, cwd=folder, env={**os.environ, **env}, stdout=log, stderr=log)

    def __enter__(self) -> Service:
        until = time.monotonic() + START_MAX
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                raise RuntimeError(f"the service did not start: {self.log.read_text()}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def token(self, user: str, scope: str) -> str:
        return token(self.secret, user, scope)

    def check(self) -> None:
        """Fails if the service ended or panicked."""
        log = self.log.read_text()
        if self.process.poll() is not None or "panicked" in log:
            raise RuntimeError(f"the service panicked or ended: {log}")

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class Drop(Exception):
    """The connection ends without an answer."""


class Exchange:
    """Request that the proxy has received."""

    def __init__(self, handler: Handler, target: str, body: bytes, number: int) -> None:
        self.handler, self.target, self.body = handler, target, body
        # How often the proxy has seen its key, or its path if it has none; from 1.
        self.number = number

    def forward(self) -> tuple[int, list[tuple[str, str]], bytes]:
        host = urllib.parse.urlsplit(self.handler.proxy.service_url).netloc
        connection = http.client.HTTPConnection(host, timeout=30)
        try:
            hops = {"host", "connection", "content-length"}
            headers = {name: value for name, value in self.handler.headers.items() if name.lower() not in hops}
            connection.request(self.handler.command, self.target, self.body or None, headers)
            answer = connection.getresponse()
            kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in ("connection", "content-length")]
            return answer.status, kept, answer.read()
        finally:
            connection.close()


Answer = tuple[int, list[tuple[str, str]], bytes]


def plain(exchange: Exchange) -> Answer:
    return exchange.forward()


def drop_first(exchange: Exchange) -> Answer:
    answer = exchange.forward()
    if exchange.number == 1:
        raise Drop
    return answer


def drop_all(exchange: Exchange) -> Answer:
    exchange.forward()
    raise Drop


def lose_first(exchange: Exchange) -> Answer:
    if exchange.number == 1:
        raise Drop
    return exchange.forward()


def late_first(exchange: Exchange) -> Answer:
    answer = exchange.forward()
    if exchange.number == 1:
        time.sleep(LATE)
    return answer


def throttle_first(exchange: Exchange) -> Answer:
    if exchange.number > 1:
        return exchange.forward()
    problem = {"type": "/problems/throttled", "title": "Too many requests of this user", "status": 429}
    headers = [("Content-Type", "application/problem+json"), ("Retry-After", "1")]
    return 429, headers, json.dumps(problem).encode()


def gateway_first(exchange: Exchange) -> Answer:
    if exchange.number > 2:
        return exchange.forward()
    return 502, [("Content-Type", "text/html")], b"<h1>Bad gateway</h1>"


def new_words(exchange: Exchange) -> Answer:
    """Words of a later service."""
    status, headers, body = exchange.forward()
    for old, new in (("live", "sparkling"), ("/problems/sold-out", "/problems/sold-over"), ("sold_out", "sold_over")):
        body = body.replace(f'"{old}"'.encode(), f'"{new}"'.encode())
    return status, headers, body


def lossy(exchange: Exchange) -> Answer:
    """Loses one request of eight, and one answer of four."""
    chance = exchange.handler.proxy.draw()
    if chance < 1 / 8:
        raise Drop
    answer = exchange.forward()
    if chance < 3 / 8:
        raise Drop
    return answer


FAULTS: dict[str, Callable[[Exchange], Answer]] = {
    "plain": plain,
    "drop-first": drop_first,
    "drop-all": drop_all,
    "lose-first": lose_first,
    "late-first": late_first,
    "throttle-first": throttle_first,
    "gateway-first": gateway_first,
    "new-words": new_words,
    "lossy": lossy,
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Requests of clients, and those of tests: `/_token` and `/_seen`."""

    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def handle_one(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/_token":
            return self.send(200, [], self.proxy.service.token(query["user"], query["scope"]).encode())
        if url.path == "/_seen":
            return self.send(200, [], json.dumps(self.proxy.seen(query["key"])).encode())
        _, fault, rest = self.path.split("/", 2)
        key = self.headers.get("idempotency-key") or f"{self.command} /{rest}"
        number = self.proxy.record(fault, key)
        try:
            status, headers, answer = FAULTS[fault](Exchange(self, f"/{rest}", body, number))
        except Drop:
            self.proxy.dropped += 1
            return self.drop()
        self.send(status, headers, answer)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_one

    def send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # Many clients connect at once.
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A client that went away is no error."""


class Proxy:
    """Proxy in front of a service, on a free port."""

    def __init__(self, service: Service, seed: int = 1) -> None:
        self.service, self.service_url = service, service.url
        self.dropped = 0
        self._seen: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._lock = threading.Lock()
        self._state = seed
        self._server = Server(("127.0.0.1", 0), type("ProxyHandler", (Handler,), {"proxy": self}))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def record(self, fault: str, key: str) -> int:
        with self._lock:
            times = self._seen[(fault, key)]
            times.append(time.monotonic())
            return len(times)

    def seen(self, key: str) -> list[float]:
        """Times of the requests with a key, in seconds after the first."""
        with self._lock:
            times = sorted(at for (_, other), found in self._seen.items() if other == key for at in found)
        return [at - times[0] for at in times]

    def draw(self) -> float:
        """Number from 0 to 1 that depends on the seed and on the order of the calls."""
        with self._lock:
            self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
            return (self._state >> 11) / 2**53


def fenced(text: str, language: str) -> list[str]:
    """Code blocks of a Markdown text in this language."""
    blocks: list[str] = []
    lines: list[str] | None = None
    for line in text.splitlines():
        if lines is None and line == f"```{language}":
            lines = []
        elif lines is not None and line == "```":
            blocks.append("\n".join(lines) + "\n")
            lines = None
        elif lines is not None:
            lines.append(line)
    return blocks


def environment(service: Service, proxy: Proxy) -> dict[str, Any]:
    here = Path(__file__).resolve().parent
    return {
        **os.environ,
        "QIANG_URL": service.url,
        "QIANG_PROXY": proxy.url,
        # No process listens there.
        "QIANG_NOWHERE": f"http://127.0.0.1:{free_port()}",
        "QIANG_SIGNATURES": str(here / "signatures.json"),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
