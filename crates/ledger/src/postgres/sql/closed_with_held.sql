-- Without `MATERIALIZED`, the planner would scan all campaigns in order of their ids.
WITH ended AS MATERIALIZED (
    SELECT ref, id, parts, phase
    FROM campaigns
    WHERE holds_end > (SELECT created_at FROM campaigns ORDER BY ref DESC LIMIT 1) - 2592000000
)
SELECT id, parts, phase
FROM ended
WHERE (SELECT 1 FROM orders o WHERE o.campaign = ended.ref AND o.state = 'held' LIMIT 1) IS NOT NULL
    AND id > $1
ORDER BY id
LIMIT $2
