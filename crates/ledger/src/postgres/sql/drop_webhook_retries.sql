DELETE FROM webhook_retries WHERE (webhook, place) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))
