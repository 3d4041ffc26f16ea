SELECT a.id, a.place, a.event, a.kind, a.campaign, a.number, a.at, a.duration_ms, a.attempt, a.status, a.body, a.error,
       a.state, a.next_at
FROM webhook_attempts a
WHERE a.campaign = $1 AND a.number = $2 AND a.webhook = $3 AND a.id < $4 AND a.state LIKE $5
ORDER BY a.id DESC LIMIT $6
