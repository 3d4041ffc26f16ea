"""Typed client of Qiang's HTTP API: red packets and flash sales."""

from .call import VERSION as __version__
from .claims import ClaimResult, Granted, Refused, Waiting
from .client import Client
from .convert import UNSET, OpenEnum, Unset
from .errors import (
    AnswerError,
    LostConnectionError,
    NoAnswerError,
    ProblemError,
    QiangError,
    SignatureError,
    UsageError,
)
from .generated import enums, models
from .generated.enums import *  # noqa: F403
from .generated.models import *  # noqa: F403
from .pager import Page, Pager
from .webhooks import Event, verify

__all__ = [
    "UNSET",
    "AnswerError",
    "ClaimResult",
    "Client",
    "Event",
    "Granted",
    "LostConnectionError",
    "NoAnswerError",
    "OpenEnum",
    "Page",
    "Pager",
    "ProblemError",
    "QiangError",
    "Refused",
    "SignatureError",
    "Unset",
    "UsageError",
    "Waiting",
    "__version__",
    "verify",
]
__all__ += enums.__all__
__all__ += models.__all__
