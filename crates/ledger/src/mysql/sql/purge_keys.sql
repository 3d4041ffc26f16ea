DELETE FROM idempotency_keys WHERE purged_by < ? ORDER BY purged_by LIMIT ?
