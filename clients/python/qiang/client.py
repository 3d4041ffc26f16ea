"""Client of one service."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from .call import Bounds, Options
from .claims import Claims
from .errors import UsageError
from .generated.operations import Operations
from .wire import Wire


class Client(Claims, Operations):
    """Client of the service at a URL. A path in the URL precedes all paths of the API.

    Every change has an idempotency key. The client repeats it under that key if the connection fails or the answer is
    late, and on status 408, 429, 502, 503 and 504, after `Retry-After` and a random pause, until the deadline. So no
    change happens twice. Threads may share a client.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        deadline: float = 30.0,
        attempt_max: float = 10.0,
        in_flight_max: int = 64,
        backoff_first: float = 0.05,
        backoff_max: float = 2.0,
    ) -> None:
        """Makes a client. It connects at the first call. Times are in seconds.

        `deadline` bounds a call with all its attempts and pauses, `attempt_max` one attempt. At most `in_flight_max`
        calls run at a time, pauses included; further ones wait. Random pauses are up to `backoff_first`, which doubles
        with each attempt up to `backoff_max`.
        """
        if in_flight_max < 1:
            raise UsageError("in_flight_max must be at least 1")
        bounds = Bounds(attempt_max, backoff_first, backoff_max, threading.Semaphore(in_flight_max))
        super().__init__(Wire(url), bounds, Options(token, None, deadline))

    def with_options(
        self, *, token: str | None = None, key: str | None = None, deadline: float | None = None
    ) -> Client:
        """Client for another user, with a chosen idempotency key, or with another deadline. It shares connections.

        Use a key for one request and its retries. Store it before the first attempt if you must find out about the
        result after a crash of your process.
        """
        options = Options(
            self._options.token if token is None else token,
            self._options.key if key is None else key,
            self._options.deadline if deadline is None else deadline,
        )
        other = Client.__new__(Client)
        Claims.__init__(other, self._wire, self._bounds, options)
        return other

    def close(self) -> None:
        """Closes idle connections."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
