UPDATE webhooks SET held_until = $1, place = $2, failing_since = $3, attempts = $4, retry_at = $5, last_error = $6,
                    disabled_at = $7
WHERE id = $8 AND holder = $9
