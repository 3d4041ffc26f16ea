SELECT id
FROM campaigns c
WHERE id > $1 AND (phase <> 'closed' OR (
    kind = 'sale'
    AND ends_at + hold_ms > (SELECT created_at FROM campaigns ORDER BY ref DESC LIMIT 1) - 2592000000
    AND (SELECT 1 FROM orders o WHERE o.campaign = c.ref AND o.state = 'held' LIMIT 1) IS NOT NULL
))
ORDER BY id
LIMIT $2
