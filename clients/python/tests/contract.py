"""The cases of clients/contract/cases.json with the client in Python."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode
from urllib.request import urlopen

import qiang
from qiang import Client, Credentials, Granted, Money, NewOrder, NewSale, Refused, Waiting

T = TypeVar("T")

DIRECT = os.environ["QIANG_URL"]
PROXY = os.environ["QIANG_PROXY"]
SELLER_SCOPES = "campaigns:write pay deposit send read:any admin"
PRICE = Money(amount=49_900, currency="CNY")


def fresh(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:12]}"


def token(user: str, scope: str) -> str:
    with urlopen(f"{PROXY}/_token?{urlencode({'user': user, 'scope': scope})}") as answer:
        text: str = answer.read().decode()
        return text


def client_of(user: str, scope: str, fault: str = "", **options: float) -> Client:
    return Client(f"{PROXY}/{fault}" if fault else DIRECT, token(user, scope), **options)  # type: ignore[arg-type]


def seller(fault: str = "", **options: float) -> Client:
    return client_of(fresh("seller"), SELLER_SCOPES, fault, **options)


def buyer(fault: str = "", **options: float) -> Client:
    return client_of(fresh("buyer"), "claim", fault, **options)


def sale_of(shop: Client, stock: int = 10, limit: int = 5) -> qiang.Sale:
    return shop.create_sale(NewSale(title="lamps", stock=stock, unit_price=PRICE, per_user_limit=limit))


def requests_with(key: str) -> list[float]:
    with urlopen(f"{PROXY}/_seen?{urlencode({'key': key})}") as answer:
        times: list[float] = json.loads(answer.read())
        return times


def granted(result: qiang.ClaimResult[T]) -> Granted[T]:
    assert isinstance(result, Granted), result
    return result


def refused(result: qiang.ClaimResult[T]) -> Refused:
    assert isinstance(result, Refused), result
    return result


def problem(call: Callable[[], object]) -> qiang.ProblemError:
    try:
        value = call()
    except qiang.ProblemError as error:
        return error
    raise AssertionError(f"no problem: {value}")


def claim() -> None:
    sale = sale_of(seller())
    ann = buyer()
    got = granted(ann.order(sale.id, NewOrder(quantity=2)))
    order = got.grant
    assert not got.is_replay and order.id.startswith(sale.id), order
    assert (order.state, order.quantity, order.amount.amount) == (qiang.OrderState.HELD, 2, 99_800), order
    assert ann.get_order(order.id).id == order.id
    assert ann.get_campaign_state(sale.id).granted == 2


def share() -> None:
    sender = fresh("sender")
    shop = client_of(sender, SELLER_SCOPES)
    shop.make_deposit(sender, qiang.NewDeposit(reference=fresh("bank"), amount=1_000, currency="CNY"))
    split = qiang.NewSplitRule(rule=qiang.SplitRuleName.EQUAL)
    total = Money(amount=1_000, currency="CNY")
    packet = shop.create_red_packet(qiang.NewRedPacket(title="恭喜", total=total, shares=2, split=split))
    ann = buyer()
    first = granted(ann.claim(packet.id))
    again = granted(ann.claim(packet.id, Credentials()))
    assert first.grant.amount.amount == 500 and again.grant.id == first.grant.id, (first, again)
    assert not first.is_replay and again.is_replay, (first, again)


def replay() -> None:
    sale = sale_of(seller())
    ann = buyer().with_options(key=fresh("key"))
    first, second = granted(ann.order(sale.id)), granted(ann.order(sale.id))
    assert first.grant.id == second.grant.id, (first, second)
    assert not first.is_replay and second.is_replay, (first, second)
    assert ann.get_campaign_state(sale.id).granted == 1
    reused = problem(lambda: ann.order(sale.id, NewOrder(quantity=2)))
    assert (reused.type, reused.problem.status) == (qiang.ProblemType.KEY_REUSED, 422), reused


def sold_out() -> None:
    sale = sale_of(seller(), stock=1, limit=1)
    ann, ben = buyer(), buyer()
    granted(ann.order(sale.id))
    late = refused(ben.order(sale.id))
    assert late.outcome is qiang.RefusedOutcome.SOLD_OUT, late
    assert late.problem.type is qiang.ProblemType.SOLD_OUT and late.problem.status == 409, late
    assert refused(ann.order(sale.id)).outcome is qiang.RefusedOutcome.LIMIT_REACHED


def throttled() -> None:
    sale = sale_of(seller())
    key = fresh("key")
    assert not granted(buyer("throttle-first").with_options(key=key).order(sale.id)).is_replay
    times = requests_with(key)
    assert len(times) == 2 and times[1] >= 1.0, times


def rate_limit() -> None:
    sale = sale_of(seller(), stock=100, limit=100)
    ann = buyer()
    orders = {granted(ann.order(sale.id)).grant.id for _ in range(23)}
    assert len(orders) == 23, orders


def lost_answer() -> None:
    name = fresh("seller")
    shop, lossy = client_of(name, SELLER_SCOPES), client_of(name, SELLER_SCOPES, "drop-first")
    reference = fresh("po")
    sale = lossy.create_sale(NewSale(title="lamps", stock=9, unit_price=PRICE, reference=reference))
    assert [one.id for one in shop.list_sales(reference=reference)] == [sale.id]
    key = fresh("key")
    got = granted(buyer("drop-first").with_options(key=key).order(sale.id))
    assert got.is_replay and len(requests_with(key)) == 2, got
    assert shop.get_campaign_state(sale.id).granted == 1
    lossy.make_deposit(name, qiang.NewDeposit(reference=fresh("bank"), amount=700, currency="CNY"))
    assert shop.get_account(name).balances[0].available.amount == 700


def lost_request() -> None:
    shop = seller()
    sale = sale_of(shop)
    key = fresh("key")
    got = granted(buyer("lose-first").with_options(key=key).order(sale.id))
    assert not got.is_replay and len(requests_with(key)) == 2, got
    assert shop.get_campaign_state(sale.id).granted == 1


def late_answer() -> None:
    shop = seller()
    sale = sale_of(shop)
    got = granted(buyer("late-first", attempt_max=0.5).order(sale.id))
    assert got.is_replay, got
    assert shop.get_campaign_state(sale.id).granted == 1


def gave_up() -> None:
    shop = seller()
    sale = sale_of(shop)
    name = fresh("buyer")
    try:
        client_of(name, "claim", "drop-all", deadline=0.5).order(sale.id)
    except qiang.NoAnswerError as error:
        assert error.may_have_happened and error.attempts > 1, error
        assert isinstance(error.__cause__, qiang.LostConnectionError), error
        got = granted(client_of(name, "claim").with_options(key=error.key).order(sale.id))
        assert got.is_replay, got
        assert shop.get_campaign_state(sale.id).granted == 1
        return
    raise AssertionError("there was an answer")


def no_service() -> None:
    try:
        Client(os.environ["QIANG_NOWHERE"], deadline=0.3).make_deposit(
            "ann", qiang.NewDeposit(reference="x", amount=1, currency="CNY")
        )
    except qiang.NoAnswerError as error:
        assert not error.may_have_happened and error.problem is None, error
        return
    raise AssertionError("there was an answer")


def gateway() -> None:
    shop = seller()
    sale = sale_of(shop)
    key = fresh("key")
    assert not granted(buyer("gateway-first").with_options(key=key).order(sale.id)).is_replay
    assert len(requests_with(key)) == 3
    try:
        buyer("gateway-first", deadline=0.5, backoff_first=1e6, backoff_max=1e6).order(sale.id)
    except qiang.NoAnswerError as error:
        assert error.may_have_happened and error.kind == "about:blank", error
        assert error.problem is not None and error.problem.status == 502, error
        return
    raise AssertionError("there was an answer")


def paging() -> None:
    shop = seller()
    sale = sale_of(shop, stock=20, limit=20)
    ann = buyer()
    first = [granted(ann.order(sale.id)).grant.id for _ in range(7)]
    wait_until(lambda: shop.list_all_orders(campaign=sale.id, limit=1).page().settled is not False)
    newest = shop.list_all_orders(campaign=sale.id, limit=3)
    read = [order.id for order in newest.page().data]
    # It is newer than all pages that follow.
    granted(ann.order(sale.id))
    read += [order.id for order in newest]
    assert read == first[::-1], (read, first)
    pages = [len(page.data) for page in shop.list_orders(sale.id, limit=3).pages()]
    assert sum(pages) == 8 and len(pages) >= 3, pages


def events() -> None:
    shop = seller()
    sale = sale_of(shop)
    hook = shop.create_webhook(qiang.NewWebhook(url="http://127.0.0.1:9/", campaigns=[sale.id]))
    ann = buyer()
    pager = shop.list_events()

    def read(order: str) -> list[str]:
        found: list[str] = []
        until = time.monotonic() + 10
        while not found and time.monotonic() < until:
            found += [event.data["order"] for event in pager if event.data.get("campaign") == sale.id]
        assert found == [order], (found, order)
        return found

    read(granted(ann.order(sale.id)).grant.id)
    later = granted(ann.order(sale.id)).grant.id
    # Another process continues from the kept cursor.
    pager = shop.list_events(after=pager.cursor)
    read(later)
    shop.delete_webhook(hook.id)


def webhook_signature() -> None:
    table = json.loads(Path(os.environ["QIANG_SIGNATURES"]).read_text("utf-8"))
    for case in table["cases"]:
        body = case["body"].encode()
        try:
            event = qiang.verify(case["secrets"], case["headers"], body, now=table["now"])
            accepted = True
            assert event.type is qiang.WebhookEventType.ORDER_PAID and event.data.user == "李雷", event
        except qiang.SignatureError:
            accepted = False
        assert accepted is case["accepted"], case["name"]


def payment() -> None:
    shop = seller()
    sale = sale_of(shop)
    name = fresh("buyer")
    order = granted(client_of(name, "claim").order(sale.id)).grant
    reference = fresh("pay")

    def pay(reference: str, user: str = name) -> qiang.PaymentReport:
        now = datetime.now(UTC)
        return qiang.PaymentReport(order=order.id, reference=reference, amount=PRICE, user=user, paid_at=now)

    other = problem(lambda: shop.report_payment(pay(fresh("pay"), fresh("other"))))
    assert other.type is qiang.ProblemType.USER_MISMATCH, other
    report = pay(reference)
    first, again = shop.report_payment(report), shop.report_payment(report)
    assert first.outcome is again.outcome is qiang.PaymentOutcome.PAID, (first, again)
    assert first.order.state is qiang.OrderState.PAID, first
    assert shop.report_payment(pay(fresh("pay"))).outcome is qiang.PaymentOutcome.REFUND_DUE
    wait_until(lambda: shop.get_refunds(order.id).due.amount == PRICE.amount)
    refund = qiang.NewRefund(reference=fresh("refund"), amount=PRICE)
    assert shop.refund_order(order.id, refund).reference == shop.refund_order(order.id, refund).reference
    wait_until(lambda: shop.get_refunds(order.id).refunded.amount == PRICE.amount)
    assert [one.outcome for one in shop.list_payments(reference=reference)] == [qiang.PaymentRecordOutcome.PAID]


def cancel() -> None:
    shop = seller()
    sale = sale_of(shop)
    name = fresh("buyer")
    ann, lossy = client_of(name, "claim"), client_of(name, "claim", "drop-first")
    order = granted(ann.order(sale.id, NewOrder(quantity=3))).grant
    part = lossy.cancel_order(order.id, qiang.NewCancellation(quantity=1))
    assert (part.quantity, part.cancelled_quantity, part.state) == (2, 1, qiang.OrderState.HELD), part
    assert lossy.cancel_order(order.id).state is qiang.OrderState.CANCELLED
    assert ann.cancel_order(order.id).state is qiang.OrderState.CANCELLED
    assert shop.get_campaign_state(sale.id).remaining == 10
    paid = granted(ann.order(sale.id)).grant
    shop.pay_order(paid.id, qiang.NewPayment(reference=fresh("pay"), amount=PRICE))
    conflict = problem(lambda: ann.cancel_order(paid.id))
    assert (conflict.type, conflict.problem.status) == (qiang.ProblemType.ORDER_CONFLICT, 409), conflict


def errors() -> None:
    shop = seller()
    sale = sale_of(shop)
    ann = buyer()
    wrong = problem(lambda: ann.order(sale.id, NewOrder(quantity=0)))
    assert (wrong.type, wrong.problem.status) == (qiang.ProblemType.INVALID, 422), wrong
    assert [one.pointer for one in wrong.problem.errors or []] == ["#/quantity"], wrong
    assert wrong.problem.request_id, wrong
    nowhere = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80"
    unknown = problem(lambda: ann.get_sale(nowhere))
    assert (unknown.kind, unknown.problem.status) == ("unknown-campaign", 404), unknown
    assert refused(ann.order(nowhere)).outcome is qiang.RefusedOutcome.UNKNOWN_CAMPAIGN
    stranger = problem(lambda: shop.with_options(token="wrong").get_account("ann"))
    assert (stranger.type, stranger.problem.status) == (qiang.ProblemType.UNAUTHENTICATED, 401), stranger
    forbidden = problem(lambda: sale_of(ann))
    assert forbidden.type is qiang.ProblemType.FORBIDDEN and forbidden.problem.status == 403, forbidden
    assert "campaigns:write" in (forbidden.problem.scope or ""), forbidden


def new_words() -> None:
    sale = sale_of(seller(), stock=1, limit=1)
    state = buyer("new-words").get_campaign_state(sale.id)
    assert state.phase == "sparkling" and not state.phase.is_known, state
    granted(buyer().order(sale.id))
    late = refused(buyer("new-words").order(sale.id))
    assert late.outcome == "sold_over" and not late.outcome.is_known, late
    assert late.problem.type == "/problems/sold-over" and not late.problem.type.is_known, late


def ticket() -> None:
    shop = seller()
    new = NewSale(title="lamps", stock=5, unit_price=PRICE, requirements=[qiang.Requirement.TICKET])
    sale = shop.create_sale(new)
    granted(buyer().order(sale.id))
    ann = buyer()
    granted(ann.order(sale.id, ticket=ann.get_sale_ticket(sale.id)))
    assert shop.get_campaign_state(sale.id).granted == 2


def queue() -> None:
    shop = seller()
    sale = shop.create_sale(NewSale(title="lamps", stock=5, unit_price=PRICE, waiting_room=True))
    shop.pause_campaign(sale.id)
    ann = buyer()
    waiting = ann.order(sale.id)
    assert isinstance(waiting, Waiting) and waiting.place.state is qiang.PlaceState.WAITING, waiting
    still = ann.wait_for_place(sale.id, 0.1)
    assert isinstance(still, Waiting), still
    shop.resume_campaign(sale.id)
    order = granted(ann.wait_for_place(sale.id, 20)).grant
    assert isinstance(order, qiang.Order) and order.state is qiang.OrderState.HELD, order


def change() -> None:
    shop = seller()
    new = NewSale(title="lamps", stock=5, unit_price=PRICE, description="bright", product_id="lamp-1")
    sale = shop.create_sale(new)
    changed = shop.change_sale(sale.id, qiang.SaleChange(title="lights", description=None))
    assert (changed.title, changed.description, changed.product_id) == ("lights", None, "lamp-1"), changed
    metadata = {"channel": "app", "shelf": "4"}
    shop.change_campaign_metadata(sale.id, qiang.MetadataChange(reference="PO-1", metadata=metadata))
    left = shop.change_campaign_metadata(sale.id, qiang.MetadataChange(metadata={"shelf": None}))
    assert (left.reference, left.metadata) == ("PO-1", {"channel": "app"}), left


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.05)


CASES: list[Callable[[], None]] = [
    claim, share, replay, sold_out, throttled, rate_limit, lost_answer, lost_request, late_answer, gave_up, no_service,
    gateway, paging, events, webhook_signature, payment, cancel, errors, new_words, ticket, queue, change,
]  # fmt: skip


def main() -> int:
    failed = 0
    for case in CASES:
        name = case.__name__.replace("_", "-")
        try:
            case()
            print(f"case {name}: passed", flush=True)
        except Exception:
            failed += 1
            print(f"case {name}: FAILED\n{traceback.format_exc()}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
