INSERT INTO webhook_attempts (id, webhook, place, event, kind, campaign, number, at, duration_ms, attempt, status, body,
                              error, state, next_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[],
                     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[],
                     $15::bigint[])
