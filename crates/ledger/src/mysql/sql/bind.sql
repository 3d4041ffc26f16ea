INSERT INTO idempotency_keys (scope, `key`, fingerprint, id, at) VALUES (?, ?, ?, ?, ?)
