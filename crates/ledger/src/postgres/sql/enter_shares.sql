INSERT INTO shares (campaign, number, amount)
SELECT $1, $2 + s.place - 1, s.amount
FROM unnest($3::bigint[]) WITH ORDINALITY AS s (amount, place)
