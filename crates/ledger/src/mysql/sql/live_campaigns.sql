SELECT id
FROM campaigns c
WHERE id > ? AND (phase <> 'closed' OR EXISTS (
    SELECT 1 FROM orders o WHERE o.campaign = c.ref AND o.state = 'held'
))
ORDER BY id
LIMIT ?
