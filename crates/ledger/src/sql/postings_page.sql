  AND p.kind LIKE $2 AND p.at <= $3
  AND (p.at < $4 OR p.source < $5 OR p.source = $6 AND p.seq < $7)
ORDER BY p.at DESC, p.source DESC, p.seq DESC
LIMIT $8
