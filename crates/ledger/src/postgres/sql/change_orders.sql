UPDATE orders o
SET state = n.state, updated_at = coalesce(n.at, o.updated_at), returned_in_parts = n.returned_in_parts,
    quantity = n.quantity, amount = n.amount, cancelled_in_parts = n.cancelled_in_parts,
    hold_until = o.hold_until + n.extension_ms, extension_ms = o.extension_ms + n.extension_ms
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
            $8::bigint[], $9::bigint[])
    AS n (campaign, number, state, at, returned_in_parts, quantity, amount, cancelled_in_parts, extension_ms)
WHERE o.campaign = n.campaign AND o.number = n.number
