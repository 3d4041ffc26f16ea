"""The shop: opens sales, reports payments, receives webhooks and pays refunds.

Its books are in memory; a real shop has a database. Each key and reference follows from the shop's own numbers, so a
shop that starts again repeats its requests without doubling anything.
"""

from __future__ import annotations

import hmac
import json
import threading
from dataclasses import dataclass, field
from datetime import datetime

import qiang
from catalogue import CURRENCY, Product
from provider import Provider, sign

# Users of the service; each has a token.
SELLER = "shop"


@dataclass
class Books:
    """What the shop knows."""

    # Sale of each product by its number in the catalogue.
    sales: dict[str, qiang.Sale] = field(default_factory=dict)
    # Events by their id: a repeated delivery has the same one.
    events: dict[str, qiang.Event] = field(default_factory=dict)
    # Outcome of each payment by its reference.
    payments: dict[str, qiang.PaymentOutcome] = field(default_factory=dict)
    repeated_events: int = 0
    repeated_notices: int = 0


class Shop:
    """Backend of the shop. Threads share it."""

    def __init__(self, client: qiang.Client, provider_secret: bytes) -> None:
        self.client = client
        self.books = Books()
        self.webhook_secrets: list[str] = []
        self._provider_secret = provider_secret
        self._lock = threading.Lock()

    def open_sales(self, products: list[Product]) -> None:
        """Opens a sale per product. Another call finds the same sales."""
        for product in products:
            new = qiang.NewSale(
                title=product.title,
                stock=product.stock,
                unit_price=qiang.Money(amount=product.price_fen, currency=CURRENCY),
                per_user_limit=product.per_user_limit,
                hold_seconds=product.hold_seconds,
                description=product.description,
                product_id=product.sku,
                reference=product.sku,
            )
            sale = self.client.with_options(key=f"open-{product.sku}").create_sale(new)
            self.books.sales[product.sku] = sale

    def subscribe(self, url: str) -> None:
        """Creates the webhook for events of the shop's sales."""
        new = qiang.NewWebhook(url=url, owner=SELLER)
        webhook = self.client.with_options(key="webhook").create_webhook(new)
        if webhook.secret:
            self.webhook_secrets.append(webhook.secret)

    def receive_webhook(self, headers: dict[str, str], body: bytes) -> int:
        """Status of the answer to a webhook."""
        try:
            event = qiang.verify(self.webhook_secrets, headers, body)
        except qiang.SignatureError:
            return 400
        with self._lock:
            self.books.repeated_events += event.id in self.books.events
            self.books.events[event.id] = event
        return 204

    def receive_notice(self, signature: str, body: bytes) -> int:
        """Status of the answer to a notice of the provider. It is 2xx only after the service has the payment."""
        if not hmac.compare_digest(sign(self._provider_secret, body), signature):
            return 400
        notice = json.loads(body)
        report = qiang.PaymentReport(
            order=notice["order"],
            reference=notice["reference"],
            user=notice["user"],
            amount=qiang.Money(amount=notice["fen"], currency=CURRENCY),
            paid_at=datetime.fromisoformat(notice["paid_at"]),
        )
        try:
            payment = self.client.with_options(key=f"report-{report.reference}").report_payment(report)
        except qiang.NoAnswerError:
            return 503
        with self._lock:
            self.books.repeated_notices += report.reference in self.books.payments
            self.books.payments[report.reference] = payment.outcome
        return 204

    def return_order(self, order: str) -> None:
        """Returns a paid order: its units are for sale again, and a refund is due."""
        self.client.with_options(key=f"return-{order}").return_order(order)

    def pay_refunds(self, provider: Provider) -> int:
        """Pays what is due, and records it. The number of refunds."""
        count = 0
        for owed in self.client.list_owed_orders():
            # The sum that became due names the refund: a further one has another name.
            reference = f"refund-{owed.order}-{owed.due.amount}"
            provider.repay(reference, owed.order, owed.outstanding.amount)
            refund = qiang.NewRefund(reference=reference, amount=owed.outstanding)
            self.client.with_options(key=reference).refund_order(owed.order, refund)
            count += 1
        return count
