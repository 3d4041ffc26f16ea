"""Verification of webhooks, as Standard Webhooks specifies."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from .convert import from_json
from .errors import SignatureError, UsageError
from .generated.enums import WebhookEventType
from .generated.models import WebhookEvent, WebhookEventData

# Seconds by which the time of a signature may differ from this machine's clock.
TOLERANCE = 300
# Signatures that are compared. The service sends one per valid secret.
SIGNATURES_MAX = 16


@dataclass(frozen=True)
class Event:
    """Webhook whose signature is right."""

    id: str
    """Its id. A retry has the same one: store it, and ignore an id that you have stored."""
    type: WebhookEventType
    """Its type. Test events have `webhook.test`, which no endpoint subscribes to."""
    timestamp: datetime
    """Time of the decision."""
    data: WebhookEventData


def verify(
    secrets: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> Event:
    """Verifies a webhook over its raw body, and reads it.

    `secrets` has one secret, or several during a rotation. Names of headers may have any case. `now` is for tests.
    Raises `SignatureError` unless a signature matches a secret and its time is within the tolerance.
    """
    keys = [_key(one) for one in ([secrets] if isinstance(secrets, str) else secrets)]
    if not keys:
        raise UsageError("there is no secret")
    found = {name.lower(): value for name, value in headers.items()}
    try:
        event_id, sent_at = found["webhook-id"], found["webhook-timestamp"]
        signatures = found["webhook-signature"].split()[:SIGNATURES_MAX]
    except KeyError as missing:
        raise SignatureError(f"the header {missing.args[0]} is missing") from None
    if not (sent_at.isascii() and sent_at.isdigit()):
        raise SignatureError("webhook-timestamp is no number of seconds")
    if abs((time.time() if now is None else now) - int(sent_at)) > tolerance:
        raise SignatureError("the signature is too old, or ahead of this machine's clock")
    signed = f"{event_id}.{sent_at}.".encode() + body
    right = ["v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys]
    # All pairs are compared, so that the time does not tell which one matched.
    matches = [hmac.compare_digest(one.encode(), given.encode()) for one in right for given in signatures]
    if not any(matches):
        raise SignatureError("no signature matches")
    try:
        event = from_json(WebhookEvent, json.loads(body))
    except (ValueError, TypeError, KeyError) as error:
        raise SignatureError(f"the body is no event: {error}") from error
    return Event(event_id, WebhookEventType(event.type), event.timestamp, event.data)


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise UsageError("the secret of a webhook is `whsec_` and base64")
    return key
