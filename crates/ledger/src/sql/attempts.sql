SELECT a.id, a.place, a.event, a.kind, a.campaign, a.number, a.at, a.duration_ms, a.attempt, a.status, a.body, a.error,
       a.state, a.next_at
FROM webhook_attempts a
WHERE a.webhook = $1 AND a.id < $2
ORDER BY a.id DESC LIMIT $3
