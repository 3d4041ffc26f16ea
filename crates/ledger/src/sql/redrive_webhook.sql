UPDATE webhooks SET failing_since = NULL, attempts = 0, retry_at = NULL, last_error = NULL, disabled_at = NULL,
                    holder = NULL, held_until = NULL
WHERE id = $1
