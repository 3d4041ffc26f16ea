SELECT a.id, a.place, a.event, a.kind, a.campaign, a.number, a.at, a.duration_ms, a.attempt, a.status, a.body, a.error,
       a.state, a.next_at
FROM webhook_attempts a
WHERE a.event = $1 AND a.webhook = $2 AND a.id < $3 AND a.state LIKE $4
ORDER BY a.id DESC LIMIT $5
