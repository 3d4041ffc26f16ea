DELETE FROM webhook_retries
WHERE NOT EXISTS (SELECT 1 FROM webhook_events e WHERE e.place = webhook_retries.place)
