INSERT INTO order_returns (campaign, number, key, quantity, amount, at, kind)
SELECT *
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
