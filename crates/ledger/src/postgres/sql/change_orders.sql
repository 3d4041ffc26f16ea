UPDATE orders o
SET state = n.state, updated_at = n.at
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) AS n (campaign, number, state, at)
WHERE o.campaign = n.campaign AND o.number = n.number
