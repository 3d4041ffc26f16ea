WHERE o.campaign = (SELECT ref FROM campaigns WHERE id = $1) AND o.state LIKE $2 AND o.granted_at >= $3
  AND o.granted_at <= $4 AND (o.granted_at < $5 OR o.number < $6)
ORDER BY o.granted_at DESC, o.number DESC
LIMIT $7
