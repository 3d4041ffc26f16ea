WHERE o."user" = $1 AND o.campaign = (SELECT ref FROM campaigns WHERE id = $2) AND o.state LIKE $3
  AND o.granted_at >= $4 AND o.granted_at <= $5 AND (o.granted_at < $6 OR o.number < $7)
ORDER BY o.granted_at DESC, o.number DESC
LIMIT $8
