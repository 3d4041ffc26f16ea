INSERT INTO webhook_attempts (id, webhook, place, event, kind, campaign, number, at, duration_ms, attempt, status, body,
                              error, state, next_at)
VALUES /*rows , */(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
