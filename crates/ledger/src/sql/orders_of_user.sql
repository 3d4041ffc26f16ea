WHERE o."user" = $1 AND o.state LIKE $2 AND o.granted_at >= $3 AND o.granted_at <= $4
  AND (o.granted_at, o.campaign, o.number) < ($5, coalesce((SELECT ref FROM campaigns WHERE id = $6), 0), $7)
ORDER BY o.granted_at DESC, o.campaign DESC, o.number DESC
LIMIT $8
