INSERT INTO payments (campaign, number, payment, outcome, amount, at, currency)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
                     $7::text[])
