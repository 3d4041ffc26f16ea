"""Errors of calls."""

from __future__ import annotations

from .generated.enums import ProblemType
from .generated.models import Problem


class QiangError(Exception):
    """Error of a call."""

    @property
    def problem(self) -> Problem | None:
        """Problem that the service reported; after retries, the last one."""
        return None

    @property
    def kind(self) -> str | None:
        """Kind of the problem: the last word of its type, such as `sold-out`. Kinds are stable."""
        return kind_of(self.problem) if self.problem else None


class UsageError(QiangError, ValueError):
    """The caller passed an invalid URL, token or value. Nothing was sent."""


class ProblemError(QiangError):
    """The service refused the request. A retry now would not help."""

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        details = [problem.detail] if problem.detail else []
        details += [f"{one.pointer or one.parameter}: {one.detail}" for one in problem.errors or []]
        super().__init__(f"{problem.status} {problem.title}" + "".join(f"; {one}" for one in details))
        self._problem = problem
        self.retry_after = retry_after
        """Seconds after which the service expects a retry, if it said so."""

    @property
    def problem(self) -> Problem:
        return self._problem

    @property
    def type(self) -> ProblemType:
        """Type of the problem. Compare it with the constants of `ProblemType`; it may be one that is not `is_known`."""
        return self._problem.type


class NoAnswerError(QiangError):
    """No answer decided the request before the deadline. The cause is the error of the last attempt."""

    def __init__(self, attempts: int, may_have_happened: bool, key: str | None, last: QiangError | None) -> None:
        super().__init__(f"no decisive answer after {attempts} attempts" + (f": {last}" if last else ""))
        self.attempts = attempts
        """Number of attempts; 0 if too many other calls were in flight."""
        self.may_have_happened = may_have_happened
        """Whether the service may still have carried the request out."""
        self.key = key
        """Idempotency key. Repeat the request with `client.with_options(key=…)` to find out."""
        self.__cause__ = last

    @property
    def problem(self) -> Problem | None:
        return self.__cause__.problem if isinstance(self.__cause__, QiangError) else None


class LostConnectionError(QiangError):
    """No connection, a broken connection, or no answer in time. `NoAnswerError` has it as its cause."""

    def __init__(self, text: str, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent
        """Whether the service may have received the request."""


class AnswerError(QiangError):
    """The service answered a success that this client does not understand. The request was carried out."""


class SignatureError(QiangError, ValueError):
    """A webhook is not signed with the secret, or not at this time. Answer it with status 400."""


def kind_of(problem: Problem) -> str:
    """Last word of a problem's type."""
    return str(problem.type).rsplit("/", 1)[-1]
