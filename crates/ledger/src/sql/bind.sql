INSERT INTO idempotency_keys (scope, "key", fingerprint, id, at) VALUES ($1, $2, $3, $4, $5)
