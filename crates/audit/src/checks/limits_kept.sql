-- No user has more units of a campaign than its limit, and no grant is outside its window. For a sale with changed
-- terms, the largest limit and the widest window that it has had count.
SELECT orders + shares FROM temp.totals;

WITH bounds AS (
    SELECT c.ref, min(c.starts_at, coalesce(min(t.starts_at), c.starts_at)) AS starts_at,
           max(c.ends_at, coalesce(max(t.ends_at), c.ends_at)) AS ends_at,
           max(c.per_user_limit, coalesce(max(t.per_user_limit), 0)) AS most
    FROM campaigns c
    LEFT JOIN sale_terms t ON t.campaign = c.ref
    GROUP BY c.ref
)
SELECT format('campaign #%d: %s has %d of at most %d', c.ref, o.user, sum(o.quantity - o.returned_in_parts), c.most)
FROM bounds c
JOIN orders o ON o.campaign = c.ref
WHERE o.state IN ('held', 'paid')
GROUP BY c.ref, o.user
HAVING sum(o.quantity - o.returned_in_parts) > c.most
UNION ALL
SELECT format('campaign #%d: %s has %d shares', campaign, user, count(*))
FROM shares
WHERE user IS NOT NULL
GROUP BY campaign, user
HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d: grant %d was made at %d, outside the window', c.ref, g.number, g.granted_at)
FROM bounds c
JOIN (
    SELECT campaign, number, granted_at FROM orders
    UNION ALL
    SELECT campaign, number, granted_at FROM shares WHERE user IS NOT NULL
) g ON g.campaign = c.ref
WHERE g.granted_at < c.starts_at OR g.granted_at >= c.ends_at;
