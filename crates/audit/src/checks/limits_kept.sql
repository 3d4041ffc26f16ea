-- Nobody has more of a campaign than its limit, and nobody got it outside its window.
SELECT orders + shares FROM temp.totals;

SELECT format('campaign #%d: %s has %d of at most %d', c.ref, o.user, sum(o.quantity), c.per_user_limit)
FROM campaigns c
JOIN orders o ON o.campaign = c.ref
WHERE o.state IN ('held', 'paid')
GROUP BY c.ref, o.user
HAVING sum(o.quantity) > c.per_user_limit
UNION ALL
SELECT format('campaign #%d: %s has %d shares', campaign, user, count(*))
FROM shares
WHERE user IS NOT NULL
GROUP BY campaign, user
HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d: grant %d was made at %d, outside the window', c.ref, g.number, g.granted_at)
FROM campaigns c
JOIN (
    SELECT campaign, number, granted_at FROM orders
    UNION ALL
    SELECT campaign, number, granted_at FROM shares WHERE user IS NOT NULL
) g ON g.campaign = c.ref
WHERE g.granted_at < c.starts_at OR g.granted_at >= c.ends_at;
