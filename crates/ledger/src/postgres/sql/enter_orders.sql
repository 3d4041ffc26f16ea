INSERT INTO orders (campaign, number, "user", quantity, amount, state, one_per_user, granted_at, hold_until,
                    updated_at, key, returned_in_parts, cancelled_in_parts, extension_ms)
SELECT *
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::smallint[],
            $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[])
