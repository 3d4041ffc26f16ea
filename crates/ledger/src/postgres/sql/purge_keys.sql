DELETE FROM idempotency_keys
WHERE (scope, key) IN (
    SELECT scope, key FROM idempotency_keys WHERE scope <> 'payment' AND at < $1 ORDER BY at LIMIT $2
)
