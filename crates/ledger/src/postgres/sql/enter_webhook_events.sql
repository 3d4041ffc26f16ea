INSERT INTO webhook_events (place, partition, seq, kind, at, campaign, number, "user", quantity, amount, payment,
                            currency)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::text[], $9::bigint[], $10::bigint[], $11::text[], $12::text[])
