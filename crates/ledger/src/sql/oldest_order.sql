SELECT count(*), min(r.granted_at)
FROM (
    SELECT o.granted_at FROM orders o
    WHERE o.granted_at >= $1 AND o.granted_at <= $2
    ORDER BY o.granted_at DESC
    LIMIT $3
) r
