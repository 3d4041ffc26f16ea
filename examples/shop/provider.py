"""Double of a payment provider: it takes money, refunds it, and notifies the shop with signed requests.

A notice is repeated until the shop accepts it, and some notices come twice, as those of real providers do.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

# Notices in flight, attempts for each, and the pause between two.
NOTICES_MAX = 4
ATTEMPTS_MAX = 20
PAUSE = 0.05
# Every notice of this many is sent twice.
TWICE_EVERY = 3


@dataclass(frozen=True)
class Charge:
    reference: str
    order: str
    user: str
    fen: int


@dataclass(frozen=True)
class Repayment:
    reference: str
    order: str
    fen: int


def sign(secret: bytes, body: bytes) -> str:
    return hmac.new(secret, body, hashlib.sha256).hexdigest()


class Provider:
    """Books of the provider."""

    def __init__(self, secret: bytes, notify_url: str) -> None:
        self.secret, self.notify_url = secret, notify_url
        self.charges: dict[str, Charge] = {}
        self.repayments: dict[str, Repayment] = {}
        self._lock = threading.Lock()
        self._notices = ThreadPoolExecutor(NOTICES_MAX)

    def charge(self, order: str, user: str, fen: int) -> Charge:
        """Takes money from a user, and notifies the shop."""
        with self._lock:
            number = len(self.charges) + 1
            charge = Charge(f"charge-{number}", order, user, fen)
            self.charges[charge.reference] = charge
        notice = {"reference": charge.reference, "order": order, "user": user, "fen": fen}
        body = json.dumps({**notice, "paid_at": datetime.now(UTC).isoformat()}).encode()
        for _ in range(2 if number % TWICE_EVERY == 0 else 1):
            self._notices.submit(self._notify, body)
        return charge

    def repay(self, reference: str, order: str, fen: int) -> Repayment:
        """Returns money to the payer of an order. The same reference again is the same repayment."""
        with self._lock:
            return self.repayments.setdefault(reference, Repayment(reference, order, fen))

    def close(self) -> None:
        """Waits until all notices are accepted."""
        self._notices.shutdown()

    def _notify(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json", "Provider-Signature": sign(self.secret, body)}
        request = urllib.request.Request(self.notify_url, body, headers, method="POST")
        for _ in range(ATTEMPTS_MAX):
            try:
                with urllib.request.urlopen(request, timeout=60):
                    return
            except OSError:
                time.sleep(PAUSE)
        raise RuntimeError(f"the shop did not accept {body!r}")
