UPDATE webhooks SET holder = $1, held_until = $2
WHERE id = $3 AND disabled_at IS NULL AND (holder IS NULL OR holder = $4 OR held_until < $5)
