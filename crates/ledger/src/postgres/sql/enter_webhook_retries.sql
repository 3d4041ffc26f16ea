INSERT INTO webhook_retries (webhook, place, attempts, failing_since, retry_at)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
