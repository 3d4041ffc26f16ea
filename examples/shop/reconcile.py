"""Compares the shop's books, the provider's books, the received webhooks and the service's lists."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import qiang
from provider import Provider
from shop import Shop

PAYS = (qiang.PaymentOutcome.PAID, qiang.PaymentOutcome.REINSTATED)


@dataclass(frozen=True)
class Lists:
    """What the service lists about the shop."""

    orders: dict[str, qiang.Order]
    payments: dict[str, qiang.PaymentRecord]
    refunds: dict[str, qiang.Refund]
    events: dict[str, qiang.RecordedEvent]
    owed: int
    settled: bool


def read(shop: Shop) -> Lists:
    orders: dict[str, qiang.Order] = {}
    settled = True
    for page in shop.client.list_all_orders(limit=50).pages():
        settled = settled and page.settled is not False
        assert not orders.keys() & {order.id for order in page.data}, "an order is on two pages"
        orders |= {order.id: order for order in page.data}
    return Lists(
        orders=orders,
        payments={one.reference: one for one in shop.client.list_payments(limit=50)},
        refunds={one.reference: one for one in shop.client.list_refunds(limit=50)},
        events={one.id: one for one in shop.client.list_events(limit=100)},
        owed=sum(1 for _ in shop.client.list_owed_orders()),
        settled=settled,
    )


def differences(lists: Lists, shop: Shop, provider: Provider, granted: dict[str, qiang.Order]) -> list[str]:
    """Differences between the books; none if they agree. `granted` has the orders that buyers were given."""
    found: list[str] = []

    def compare(what: str, left: object, right: object) -> None:
        if left != right:
            found.append(f"{what}: {left!r} and {right!r}")

    compare("orders of buyers and of lists", sorted(granted), sorted(lists.orders))
    compare("payments", _money_of_charges(provider), {one: _fen(it.amount) for one, it in lists.payments.items()})
    outcomes = {one: str(it.outcome) for one, it in lists.payments.items()}
    compare("outcomes of payments", {one: str(it) for one, it in shop.books.payments.items()}, outcomes)
    repaid = {one: it.fen for one, it in provider.repayments.items()}
    compare("refunds", repaid, {one: it.amount.amount for one, it in lists.refunds.items()})
    compare("received events and recorded events", sorted(shop.books.events), sorted(lists.events))
    compare("refunds due", lists.owed, 0)
    by_order: dict[str, list[qiang.Event]] = defaultdict(list)
    for event in shop.books.events.values():
        by_order[event.data.order or ""].append(event)
    for number, order in lists.orders.items():
        compare(f"state of {number}", _state_of(by_order[number], order), str(order.state))
    for sku, sale in shop.books.sales.items():
        held = sum(one.quantity for one in lists.orders.values() if one.campaign == sale.id and _keeps_units(one))
        compare(f"units of {sku}", held, shop.client.get_campaign_state(sale.id).granted)
    kept = sum(it.fen for it in provider.charges.values()) - sum(repaid.values())
    paid = sum(one.amount.amount for one in lists.orders.values() if one.state is qiang.OrderState.PAID)
    compare("money that the provider holds and orders that are paid", kept, paid)
    return found


def _money_of_charges(provider: Provider) -> dict[str, int | None]:
    return {one: it.fen for one, it in provider.charges.items()}


def _fen(money: qiang.Money | None) -> int | None:
    return money.amount if money else None


def _keeps_units(order: qiang.Order) -> bool:
    return order.state in (qiang.OrderState.HELD, qiang.OrderState.PAID)


def _state_of(events: list[qiang.Event], order: qiang.Order) -> str:
    """State of an order by its events."""
    counts = Counter(str(event.type) for event in events)
    if counts["order.held"] != 1 or counts["order.paid"] > 1:
        return f"impossible: {dict(counts)}"
    returned = sum(event.data.quantity or 0 for event in events if event.type is qiang.WebhookEventType.ORDER_RETURNED)
    if returned and returned == order.returned_quantity:
        return "returned"
    for event, state in (("order.paid", "paid"), ("order.expired", "expired"), ("order.cancelled", "cancelled")):
        if counts[event]:
            return state
    return "held"
