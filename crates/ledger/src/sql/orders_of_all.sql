WHERE o.state LIKE $1 AND o.granted_at >= $2 AND o.granted_at <= $3
  AND (o.granted_at, o.campaign, o.number) < ($4, coalesce((SELECT ref FROM campaigns WHERE id = $5), 0), $6)
ORDER BY o.granted_at DESC, o.campaign DESC, o.number DESC
LIMIT $7
