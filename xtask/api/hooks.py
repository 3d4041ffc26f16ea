"""What schemathesis cannot know: ids of campaigns and orders that there are."""

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
ORDERS = [post(f"/v1/sales/{sale}/orders", {"quantity": 1})["order"] for sale in SALES * 3]
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
MILLIS = st.integers(0, 2**44)
SOURCES, NUMBERED = st.integers(-1, 65_535), st.integers(0, 2**44)
schemathesis.openapi.format("order-place", st.builds("{}.{}".format, MILLIS, ORDER_IDS))
SIDES = st.sampled_from(["in", "out"])
schemathesis.openapi.format("posting-place", st.builds("{}.{}.{}.{}".format, MILLIS, SOURCES, NUMBERED, SIDES))
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
