SELECT DISTINCT a.place
FROM webhook_attempts a JOIN webhook_events e ON e.place = a.place
WHERE a.webhook = $1 AND a.state = 'given_up' AND a.id >= $2
  AND NOT EXISTS (
      SELECT 1 FROM webhook_attempts b
      WHERE b.event = a.event AND b.webhook = a.webhook AND b.at >= a.at AND b.state = 'delivered'
  )
  AND NOT EXISTS (SELECT 1 FROM webhook_retries r WHERE r.webhook = a.webhook AND r.place = a.place)
ORDER BY a.place LIMIT $3
