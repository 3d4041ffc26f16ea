UPDATE orders o
SET state = n.state, updated_at = coalesce(n.at, o.updated_at), returned_in_parts = n.returned_in_parts
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[])
    AS n (campaign, number, state, at, returned_in_parts)
WHERE o.campaign = n.campaign AND o.number = n.number
