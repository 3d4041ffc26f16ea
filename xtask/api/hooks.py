"""What schemathesis cannot know: ids of campaigns and orders that there are."""

import base64
import os

import requests
import schemathesis
from hypothesis import strategies as st

URL = os.environ["QIANG_URL"]
HEADERS = {"Authorization": f"Bearer {os.environ['QIANG_TOKEN']}"}
MONEY = {"amount": 1_000, "currency": "CNY"}


def post(path, body=None):
    response = requests.post(URL + path, json=body, headers=HEADERS, timeout=10)
    response.raise_for_status()
    return response.json()


post("/v1/accounts/alice/deposits", {"reference": "hooks", "amount": 1_000_000, "currency": "CNY"})
PACKET = {"title": "packet", "total": MONEY, "shares": 10, "split": {"rule": "lazy"}}
SALE = {"title": "sale", "stock": 1_000, "per_user_limit": 900, "unit_price": MONEY}
CAMPAIGNS = [post("/v1/red-packets", PACKET)["id"] for _ in range(3)]
SALES = [post("/v1/sales", SALE)["id"] for _ in range(3)]
LINE = post("/v1/red-packets", {**PACKET, "waiting_room": True})["id"]
post(f"/v1/red-packets/{LINE}/claims")
INVITED = post("/v1/sales", {**SALE, "audience": {"invitation": True}})["id"]
CLOSABLE = post("/v1/sales", SALE)["id"]
CLOSED = post("/v1/sales", SALE)["id"]
post(f"/v1/campaigns/{CLOSED}/close")
ORDERS = [post(f"/v1/sales/{sale}/orders", {"quantity": 1})["id"] for sale in SALES * 3]
for order in ORDERS[:5]:
    post(f"/v1/orders/{order}/payment", {"reference": f"paid-{order[-40:]}", "amount": MONEY})


def version_7(uuid):
    text = str(uuid)
    return f"{text[:14]}7{text[15:]}"


USABLE = CAMPAIGNS + SALES + [LINE, INVITED]
CAMPAIGN_IDS = st.sampled_from(USABLE) | st.uuids().map(version_7)
NUMBERS = st.integers(1, 2**32 - 1)
ORDER_IDS = st.sampled_from(ORDERS) | st.builds("{}-{}".format, CAMPAIGN_IDS, NUMBERS)
schemathesis.openapi.format("uuid", CAMPAIGN_IDS)
schemathesis.openapi.format("order-id", ORDER_IDS)
# Each list has its own cursors, so each operation replaces this one.
ANY_CURSOR = "any-cursor"
schemathesis.openapi.format("cursor", st.just(ANY_CURSOR))


def cursor(name, position):
    return base64.urlsafe_b64encode(f"{name}:{position}".encode()).decode().rstrip("=")


CURSORS = {
    "/v1/sales": cursor("sales", SALES[0]),
    "/v1/red-packets": cursor("red_packets", CAMPAIGNS[0]),
    "/v1/sales/{id}/orders": cursor("orders", 1),
    "/v1/red-packets/{id}/claims": cursor("shares", 1),
    "/v1/accounts/{user}/orders": cursor("user_orders", f"0.{ORDERS[0]}"),
    "/v1/accounts/{user}/claims": cursor("claims", "0.-1.0.in"),
    "/v1/accounts/{user}/postings": cursor("postings", "0.-1.0.in"),
    "/v1/refunds-due": cursor("refunds_due", ORDERS[0]),
    "/v1/events": cursor("events", 0),
    "/v1/quarantine": cursor("quarantine", "0-1"),
    "/v1/operation-log": cursor("actions", SALES[0]),
    "/v1/orders": cursor("all_orders", f"0.{ORDERS[0]}"),
    "/v1/payments": cursor("payments", f"0.{ORDERS[0]}.pay-1"),
    "/v1/deposits": cursor("deposits", "0.1"),
    "/v1/withdrawals": cursor("withdrawals", "0.1"),
    "/v1/refunds": cursor("refunds", "0.1"),
    "/v1/webhooks/{id}/deliveries": cursor("webhook_deliveries", "1"),
}


@schemathesis.hook
def map_query(ctx, query):
    """Gives each list a cursor of its own."""
    if query and query.get("after") == ANY_CURSOR:
        query["after"] = CURSORS[ctx.operation.path]
    return query


schemathesis.openapi.format("iso-4217", st.sampled_from(["CNY", "USD", "JPY"]))


@schemathesis.hook.apply_to(operation_id="closeCampaign")
def map_path_parameters(ctx, path_parameters):
    """Closes others than those that claims are made of."""
    if path_parameters and path_parameters.get("id") in USABLE:
        path_parameters["id"] = CLOSABLE
    return path_parameters


@schemathesis.hook.apply_to(operation_id="archiveCampaign")
def map_path_parameters(ctx, path_parameters):
    """Archives what is closed."""
    if path_parameters and path_parameters.get("id") in USABLE:
        path_parameters["id"] = CLOSED
    return path_parameters


@schemathesis.hook.apply_to(operation_id="signInvitation")
def map_path_parameters(ctx, path_parameters):
    """Invites to what takes invitations."""
    if path_parameters and path_parameters.get("id") in USABLE:
        path_parameters["id"] = INVITED
    return path_parameters
