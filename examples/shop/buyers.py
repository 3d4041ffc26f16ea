"""Buyers of the sample shop: each orders some products and pays, cancels or forgets."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import qiang
from provider import Provider

# Products that a buyer wants.
WISHES = 6
# What buyers do with an order, and how often of a hundred times.
ACTIONS = {"pay": 60, "pay twice": 6, "pay less": 6, "pay and return": 8, "cancel": 10, "forget": 10}


@dataclass
class Bought:
    """What became clear to one buyer."""

    orders: dict[str, qiang.Order]
    returned: list[str]
    refused: Counter[str]


def shop_for(client: qiang.Client, user: str, sales: list[str], provider: Provider, seed: int) -> Bought:
    """Orders, and pays at the provider. The seed decides about each order."""
    dice = random.Random(seed)
    bought = Bought({}, [], Counter())
    for sale in dice.sample(sales, WISHES):
        result = client.order(sale, qiang.NewOrder(quantity=1))
        if isinstance(result, qiang.Refused):
            bought.refused[str(result.outcome)] += 1
            continue
        assert isinstance(result, qiang.Granted), result
        order = result.grant
        bought.orders[order.id] = order
        match dice.choices(list(ACTIONS), list(ACTIONS.values())):
            case ["pay"]:
                provider.charge(order.id, user, order.amount.amount)
            case ["pay twice"]:
                provider.charge(order.id, user, order.amount.amount)
                provider.charge(order.id, user, order.amount.amount)
            case ["pay less"]:
                provider.charge(order.id, user, order.amount.amount - 1)
            case ["pay and return"]:
                provider.charge(order.id, user, order.amount.amount)
                bought.returned.append(order.id)
            case ["cancel"]:
                client.cancel_order(order.id)
    return bought
