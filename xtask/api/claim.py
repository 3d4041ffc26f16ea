"""Claims a share with the client that openapi-python-client made of the document."""

import os

from qiang_client import AuthenticatedClient
from qiang_client.api.accounts import make_deposit
from qiang_client.api.red_packets import claim_share, create_red_packet, list_shares
from qiang_client.models import (
    Claim,
    Money,
    NewDeposit,
    NewRedPacket,
    NewSplitRule,
    Phase,
    Problem,
    ProblemType,
    SplitRuleName,
)

client = AuthenticatedClient(os.environ["QIANG_URL"], token=os.environ["QIANG_TOKEN"])

deposit = make_deposit.sync_detailed(
    "alice",
    client=client,
    body=NewDeposit(reference="python", amount=1_000, currency="CNY"),
    idempotency_key="python-deposit",
)
assert deposit.status_code == 201, deposit

packet = create_red_packet.sync(
    client=client,
    body=NewRedPacket(
        title="Python",
        total=Money(amount=1_000, currency="CNY"),
        shares=2,
        split=NewSplitRule(rule=SplitRuleName.EQUAL),
    ),
)
assert packet.state.phase is Phase.LIVE, packet

share = claim_share.sync_detailed(packet.id, client=client)
assert share.status_code == 201, share
assert isinstance(share.parsed, Claim) and share.parsed.amount.amount == 500, share

again = claim_share.sync_detailed(packet.id, client=client)
assert again.status_code == 200 and again.parsed == share.parsed, again

claims = list_shares.sync(packet.id, client=client).data
assert [claim.user for claim in claims] == ["alice"], claims

refused = claim_share.sync("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80", client=client)
assert isinstance(refused, Problem), refused
assert refused.type_ is ProblemType.UNKNOWN_CAMPAIGN, refused
print(f"Python: {share.parsed.campaign} gave {share.parsed.amount.amount}")
