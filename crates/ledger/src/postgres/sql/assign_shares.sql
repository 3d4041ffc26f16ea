UPDATE shares s
SET "user" = g."user", granted_at = g.at, amount = g.amount
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[])
    AS g (campaign, number, "user", amount, at)
WHERE s.campaign = g.campaign AND s.number = g.number
    AND s."user" IS NULL AND coalesce(s.amount, g.amount) = g.amount
