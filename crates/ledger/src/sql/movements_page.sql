  AND p.at >= $2 AND p.at <= $3 AND (p.at < $4 OR p.seq < $5)
ORDER BY p.at DESC, p.source DESC, p.seq DESC
LIMIT $6
