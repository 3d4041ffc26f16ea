"""Connections: kept alive and shared by threads. Each carries one exchange at a time."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from .errors import LostConnectionError, UsageError

# Idle seconds after which a connection is closed. Services close theirs after 75.
IDLE_MAX = 60.0
CONNECT_MAX = 5.0
# Largest answer in bytes. The largest of the service is a page of a thousand shares.
ANSWER_MAX = 8 * 1024 * 1024
CHUNK = 64 * 1024


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Names are in lower case."""
    body: bytes


class Wire:
    """Connections to one service."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        usual = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if not usual or port == 0 or parts.username or not url.isascii() or any(c.isspace() for c in url):
            raise UsageError(f"invalid URL `{url}`: use one such as http://127.0.0.1:8080")
        self._host, self._port = parts.hostname or "", port
        # The certificate must be signed by an authority that this system trusts.
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.base = parts.path.rstrip("/")
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._lock = threading.Lock()

    def exchange(self, method: str, target: str, headers: Mapping[str, str], body: bytes, until: float) -> Answer:
        """Sends a request and reads its whole answer until this time of the monotonic clock."""
        connection = self._connection(until)
        try:
            _limit(connection, until)
            connection.request(method, self.base + target, body or None, dict(headers))
            answer = self._read(connection, until)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            lost = "no answer in time" if isinstance(error, TimeoutError) else "the connection was lost"
            raise LostConnectionError(f"{lost}: {error}", sent=True) from error
        except BaseException:
            connection.close()
            raise
        return answer

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _read(self, connection: http.client.HTTPConnection, until: float) -> Answer:
        response = connection.getresponse()
        body = bytearray()
        while True:
            _limit(connection, until)
            chunk = response.read1(CHUNK)
            if not chunk:
                break
            body += chunk
            if len(body) > ANSWER_MAX:
                raise http.client.HTTPException(f"the answer has more than {ANSWER_MAX} bytes")
        if response.length:
            raise http.client.IncompleteRead(bytes(body), response.length)
        headers = {name.lower(): value for name, value in response.getheaders()}
        # The connection takes no further request before it.
        response.close()
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append((time.monotonic(), connection))
        return Answer(response.status, headers, bytes(body))

    def _connection(self, until: float) -> http.client.HTTPConnection:
        oldest = time.monotonic() - IDLE_MAX
        while True:
            with self._lock:
                if not self._idle:
                    break
                used, connection = self._idle.pop()
            if used > oldest:
                return connection
            connection.close()
        timeout = max(0.001, min(CONNECT_MAX, until - time.monotonic()))
        if self._tls:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            connection.connect()
        except OSError as error:
            raise LostConnectionError(f"cannot connect to the service: {error}", sent=False) from error
        return connection


def _limit(connection: http.client.HTTPConnection, until: float) -> None:
    rest = until - time.monotonic()
    if rest <= 0:
        raise TimeoutError("the time of the attempt is over")
    # The socket is gone once a response that ends its connection was read.
    if connection.sock is not None:
        connection.sock.settimeout(rest)
