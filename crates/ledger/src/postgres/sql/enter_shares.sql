INSERT INTO shares (campaign, number, amount)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
