DELETE FROM webhook_attempts
WHERE id IN (SELECT f.id FROM (SELECT a.id FROM webhook_attempts a WHERE a.id < $1 ORDER BY a.id LIMIT $2) f)
