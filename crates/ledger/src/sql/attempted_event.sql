SELECT a.place FROM webhook_attempts a JOIN webhook_events e ON e.place = a.place
WHERE a.event = $1 AND a.webhook = $2 ORDER BY a.id DESC LIMIT 1
