SELECT count(*), min(r.at)
FROM (
    SELECT y.at FROM payments y
    WHERE y.at >= $1 AND y.at <= $2
    ORDER BY y.at DESC
    LIMIT $3
) r
