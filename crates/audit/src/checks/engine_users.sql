-- For each buyer of a sale, the units that the engine counts equal the units of the buyer's orders in the ledger. Parts
-- with entries in flight or in quarantine are left out, and so are parts that change during the audit.
SELECT count(*) FROM temp.engine_users;

WITH quiet AS (
    SELECT e.campaign, e.partition
    FROM temp.engine_user_parts e
    WHERE NOT EXISTS (SELECT 1 FROM temp.flight f WHERE f.campaign = e.campaign AND f.partition = e.partition)
), held AS (
    SELECT c.id AS campaign, c.ref, o.user, sum(o.quantity - o.returned_in_parts) AS units,
           (SELECT count(*) FROM quiet q WHERE q.campaign = c.id) = c.parts AS is_whole
    FROM (SELECT DISTINCT campaign FROM quiet) q
    JOIN campaigns c ON c.id = q.campaign
    JOIN orders o ON o.campaign = c.ref
    WHERE o.state IN ('held', 'paid')
    GROUP BY c.id, o.user
)
SELECT format('campaign #%d: the engine counts %d units of user %s, and the orders have %d', c.ref, u.units, u.user,
              coalesce(h.units, 0))
FROM temp.engine_users u
JOIN quiet q ON q.campaign = u.campaign AND q.partition = u.partition
JOIN campaigns c ON c.id = u.campaign
LEFT JOIN held h ON h.campaign = u.campaign AND h.user = u.user
WHERE u.units <> coalesce(h.units, 0)
UNION ALL
SELECT format('campaign #%d: the engine does not have user %s, whose orders have %d units', h.ref, h.user, h.units)
FROM held h
WHERE h.is_whole AND h.units > 0
  AND NOT EXISTS (SELECT 1 FROM temp.engine_users u WHERE u.campaign = h.campaign AND u.user = h.user);
