INSERT INTO webhook_retries (webhook, place, attempts, failing_since, retry_at) VALUES ($1, $2, 0, NULL, 0)
