INSERT INTO webhook_retries (webhook, place, attempts, failing_since, retry_at)
VALUES /*rows , */(?, ?, ?, ?, ?)/*end*/
