"""Claims of shares and units: their outcomes, grab tickets and queue entries."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from .call import Call, Caller, is_replay, read
from .errors import AnswerError, LostConnectionError, ProblemError
from .generated.enums import PlaceState, RefusedOutcome
from .generated.models import (
    ChallengeAnswer,
    ChallengeSolution,
    Claim,
    Credentials,
    GrabTicket,
    NewOrder,
    Order,
    Place,
    Problem,
)

T = TypeVar("T")

# Tickets per call: the first, and another one if it expires during retries.
TICKETS_MAX = 2
# Largest work in bits. A harder challenge is refused.
WORK_BITS_MAX = 32
# Numbers tried between two reads of the clock.
TRIED_AT_ONCE = 4096
# Seconds between two reads of a queue entry.
LOOK_EVERY = 1.0


@dataclass(frozen=True)
class Granted(Generic[T]):
    """The claim was granted, by this request or by an earlier one with its key."""

    grant: T
    """The order, or the share of a red packet."""
    is_replay: bool
    """Whether an earlier request made the grant. A retry of a lost attempt of this call counts as one."""


@dataclass(frozen=True)
class Waiting:
    """The campaign has a queue, and the claim has an entry in it. `Client.wait_for_place` waits for its result."""

    place: Place


@dataclass(frozen=True)
class Refused:
    """The claim was decided, and nothing was granted: for example the campaign is sold out."""

    outcome: RefusedOutcome
    problem: Problem


ClaimResult = Granted[T] | Waiting | Refused


class Claims(Caller):
    """Calls of buyers."""

    def order(
        self, sale_id: str, body: NewOrder | None = None, *, ticket: GrabTicket | None = None
    ) -> ClaimResult[Order]:
        """Orders units of a sale; one unit unless the body says more. Scope `claim`.

        Retries of this call return the same order. Another call makes another order or is refused, unless both have the
        same key (`with_options`). If the sale needs a grab ticket, the client solves the challenge and gets one.
        """
        return self._claim(f"/v1/sales/{self._part(sale_id)}", "orders", body, ticket, Order)

    def claim(
        self, red_packet_id: str, body: Credentials | None = None, *, ticket: GrabTicket | None = None
    ) -> ClaimResult[Claim]:
        """Claims a share of a red packet. A repeated claim returns the same share. Scope `claim`."""
        return self._claim(f"/v1/red-packets/{self._part(red_packet_id)}", "claims", body, ticket, Claim)

    def get_sale_ticket(self, sale_id: str) -> GrabTicket:
        """Gets a ticket for orders of a sale in advance. Orders also get their tickets automatically."""
        return self._ticket(f"/v1/sales/{self._part(sale_id)}", self._deadline())

    def get_red_packet_ticket(self, red_packet_id: str) -> GrabTicket:
        """Gets a ticket for claims of a red packet in advance. Claims also get their tickets automatically."""
        return self._ticket(f"/v1/red-packets/{self._part(red_packet_id)}", self._deadline())

    def wait_for_place(self, campaign_id: str, patience: float) -> ClaimResult[Any]:
        """Waits up to `patience` seconds for the result of the caller's queue entry.

        It is `Waiting` if there is no result in time. The entry stays in the queue: call again to wait longer.
        """
        until = time.monotonic() + patience
        path = f"/v1/campaigns/{self._part(campaign_id)}/queue-entry"
        while True:
            try:
                place = read(Place, self._call(Call("GET", path)))
            except ProblemError as error:
                return _refused(error)
            grant = place.order or place.claim
            if grant is not None:
                return Granted(grant, is_replay=True)
            rest = until - time.monotonic()
            if place.state is not PlaceState.WAITING or rest <= 0:
                return Waiting(place)
            time.sleep(min(LOOK_EVERY, rest))

    def _claim(self, path: str, list_name: str, body: Any, ticket: GrabTicket | None, kind: type[T]) -> ClaimResult[T]:
        until = self._deadline()
        # All attempts have one key: that with a ticket is the same claim as that without.
        call = Call("POST", f"{path}/{list_name}", body=body, keyed=True, key=self._new_key(), until=until)
        for tried in range(TICKETS_MAX + 1):
            headers = {"Grab-Ticket": ticket.ticket} if ticket else {}
            try:
                answer = self._call(replace(call, headers=headers))
            except ProblemError as error:
                if error.kind not in ("ticket-missing", "ticket-expired") or tried == TICKETS_MAX:
                    return _refused(error)
                ticket = self._ticket(path, until)
                continue
            if answer.status == 202:
                return Waiting(read(Place, answer))
            return Granted(read(kind, answer), is_replay(answer))
        raise AssertionError("the last attempt returns or raises")

    def _ticket(self, path: str, until: float) -> GrabTicket:
        call = Call("POST", f"{path}/tickets", until=until)
        answer = self._call(call)
        if answer.status == 200:
            challenge = read(ChallengeAnswer, answer).challenge
            bits = challenge.difficulty or 0
            if challenge.kind != "proof-of-work" or bits > WORK_BITS_MAX:
                raise AnswerError(f"this client cannot solve the challenge `{challenge.kind}` of {bits} bits")
            solution = solve(challenge.nonce, bits, until)
            body = ChallengeSolution(nonce=challenge.nonce, solution=solution)
            answer = self._call(replace(call, body=body))
        return read(GrabTicket, answer)


def solve(nonce: str, bits: int, until: float) -> str:
    """Solves a proof of work until this time of the monotonic clock.

    It is a number such that SHA-256 over the nonce, `:` and its digits begins with this number of zero bits. It takes
    2^bits hashes on average.
    """
    begun = hashlib.sha256(f"{nonce}:".encode())
    number = 0
    while time.monotonic() < until:
        for _ in range(TRIED_AT_ONCE):
            work = begun.copy()
            work.update(str(number).encode())
            if int.from_bytes(work.digest(), "big") >> (256 - bits) == 0:
                return str(number)
            number += 1
    raise LostConnectionError("the proof of work for a ticket took longer than the deadline", sent=False)


def _refused(error: ProblemError) -> Refused:
    if error.problem.outcome is None:
        raise error
    return Refused(error.problem.outcome, error.problem)
