SELECT count(*), min(r.granted_at)
FROM (
    SELECT o.granted_at FROM orders o
    WHERE o.campaign = (SELECT ref FROM campaigns WHERE id = $1) AND o.granted_at >= $2 AND o.granted_at <= $3
    ORDER BY o.granted_at DESC
    LIMIT $4
) r
