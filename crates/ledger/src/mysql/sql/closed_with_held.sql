SELECT id, parts, phase
FROM campaigns c FORCE INDEX (campaigns_holds_end)
WHERE holds_end > (SELECT created_at FROM campaigns ORDER BY ref DESC LIMIT 1) - 2592000000
    AND (SELECT 1 FROM orders o FORCE INDEX (orders_held) WHERE o.campaign = c.ref AND o.state = 'held' LIMIT 1)
        IS NOT NULL
    AND id > ?
ORDER BY id
LIMIT ?
