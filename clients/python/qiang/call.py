"""Calls: a request is repeated under one key until an answer decides it or the deadline has passed."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from .convert import from_json, instant, to_json
from .errors import AnswerError, LostConnectionError, NoAnswerError, ProblemError, QiangError, UsageError, kind_of
from .generated.enums import ProblemType
from .generated.models import Problem
from .pager import Page, Pager
from .wire import Answer, Wire

T = TypeVar("T")

VERSION = "0.1.0"
REPEATED = (408, 429, 502, 503, 504)
# Problem with status 503 that decides the call: a retry at once would not help.
DECISIVE = ("paused",)
# Problems that do not tell whether the request was carried out. Answers of proxies have `about:blank`.
UNCERTAIN = ("uncertain", "about:blank")
KEY_MAX = 255


@dataclass(frozen=True)
class Options:
    """Properties of a client that `with_options` changes."""

    token: str | None
    key: str | None
    deadline: float


@dataclass(frozen=True)
class Bounds:
    """Limits that all clients of one connection share."""

    attempt_max: float
    backoff_first: float
    backoff_max: float
    turns: threading.Semaphore


@dataclass(frozen=True)
class Call:
    """Request that can be sent several times."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    keyed: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    # Key in place of the client's or a new one.
    key: str | None = None
    until: float | None = None


class Caller:
    """Sends calls. Threads may share it."""

    def __init__(self, wire: Wire, bounds: Bounds, options: Options) -> None:
        if options.token is not None and not _is_plain(options.token):
            raise UsageError("the token contains characters that no header allows")
        if options.key is not None and (not _is_plain(options.key) or len(options.key) > KEY_MAX):
            raise UsageError(f"an idempotency key has 1 to {KEY_MAX} visible characters of ASCII")
        self._wire = wire
        self._bounds = bounds
        self._options = options

    @staticmethod
    def _part(value: object) -> str:
        return quote(str(value), safe="")

    def _json(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        keyed: bool = False,
    ) -> T:
        return read(answer, self._call(Call(method, path, query or {}, body, keyed)))

    def _nothing(self, method: str, path: str, *, body: Any = None, keyed: bool = False) -> None:
        self._call(Call(method, path, {}, body, keyed))

    def _page(
        self,
        method: str,
        path: str,
        item: type[T],
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        keyed: bool = False,
    ) -> Page[T]:
        answer = self._call(Call(method, path, query or {}, body, keyed))
        return _page(item, answer)

    def _pages(
        self, path: str, item: type[T], *, query: Mapping[str, Any], after: str | None, endless: bool = False
    ) -> Pager[T]:
        def fetch(cursor: str | None) -> Page[T]:
            return self._page("GET", path, item, query={**query, "after": cursor})

        return Pager(fetch, after, endless)

    def _new_key(self) -> str:
        """The client's key, or a new one."""
        return self._options.key or str(uuid.uuid4())

    def _deadline(self) -> float:
        return time.monotonic() + self._options.deadline

    def _call(self, call: Call) -> Answer:
        """Carries a call out and returns its success."""
        until = call.until or self._deadline()
        key = (call.key or self._new_key()) if call.keyed else None
        target, headers, body = self._request(call, key)
        # Held over attempts and pauses. So while the service is down, callers wait here instead of sending more
        # requests.
        if not self._bounds.turns.acquire(timeout=max(0.0, until - time.monotonic())):
            raise NoAnswerError(0, False, key, None)
        try:
            return self._attempts(call, target, headers, body, key, until)
        finally:
            self._bounds.turns.release()

    def _attempts(
        self, call: Call, target: str, headers: dict[str, str], body: bytes, key: str | None, until: float
    ) -> Answer:
        attempts, may_have_happened, changes = 0, False, call.method != "GET"
        while True:
            attempts += 1
            attempt_until = min(until, time.monotonic() + self._bounds.attempt_max)
            last: QiangError
            try:
                answer = self._wire.exchange(call.method, target, headers, body, attempt_until)
                if 200 <= answer.status < 300:
                    return answer
                last = ProblemError(problem_of(answer), _retry_after(answer))
                pause = last.retry_after or 0.0
                kind = kind_of(last.problem)
                if answer.status not in REPEATED or kind in DECISIVE:
                    raise last
                may_have_happened |= kind in UNCERTAIN
            except LostConnectionError as error:
                last, pause = error, 0.0
                may_have_happened |= error.sent
            pause += self._jitter(attempts)
            if pause >= until - time.monotonic():
                raise NoAnswerError(attempts, may_have_happened and changes, key, last)
            time.sleep(pause)

    def _request(self, call: Call, key: str | None) -> tuple[str, dict[str, str], bytes]:
        headers = {"Accept": "application/json", "User-Agent": f"qiang-python/{VERSION}", **call.headers}
        if self._options.token is not None:
            headers["Authorization"] = f"Bearer {self._options.token}"
        if key is not None:
            headers["Idempotency-Key"] = key
        body = b""
        try:
            if call.body is not None:
                body = json.dumps(to_json(call.body), ensure_ascii=False, allow_nan=False).encode()
                headers["Content-Type"] = "application/json"
            query = urlencode([(name, _text(one)) for name, one in call.query.items() if one is not None])
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
        return (f"{call.path}?{query}" if query else call.path), headers, body

    def _jitter(self, attempts: int) -> float:
        """Random pause; its maximum doubles with each attempt (full jitter)."""
        longest = min(self._bounds.backoff_max, self._bounds.backoff_first * 2.0 ** min(attempts - 1, 30))
        return random.uniform(0.0, longest)


def read(kind: type[T], answer: Answer) -> T:
    """Body of an answer."""
    try:
        return from_json(kind, json.loads(answer.body))
    except (ValueError, TypeError, KeyError) as error:
        raise AnswerError(f"cannot read the answer with status {answer.status}: {error}") from error


def is_replay(answer: Answer) -> bool:
    """Whether an answer repeats that of an earlier request."""
    return answer.headers.get("idempotency-replayed") == "true"


def problem_of(answer: Answer) -> Problem:
    """Problem that an answer describes. Answers of proxies have no description."""
    if answer.headers.get("content-type", "").startswith("application/problem+json"):
        try:
            return from_json(Problem, json.loads(answer.body))
        except (ValueError, TypeError, KeyError):
            pass
    title = f"status {answer.status} without a description"
    request_id = answer.headers.get("x-request-id")
    return Problem(type=ProblemType("about:blank"), title=title, status=answer.status, request_id=request_id)


def _page(item: type[T], answer: Answer) -> Page[T]:
    try:
        body = json.loads(answer.body)
        data = [from_json(item, one) for one in body["data"]]
        return Page(data=data, next=body.get("next"), settled=body.get("settled"))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AnswerError(f"cannot read the list: {error}") from error


def _retry_after(answer: Answer) -> float | None:
    text = answer.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() else None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return instant(value)
    return str(value.value) if isinstance(value, Enum) else str(value)


def _is_plain(text: str) -> bool:
    return bool(text) and all("!" <= c <= "~" for c in text)
