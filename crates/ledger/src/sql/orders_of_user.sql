SELECT c.id, c.title, c.currency, o.number, o.quantity, o.amount, o.state, o.granted_at, o.returned_in_parts,
       o.cancelled_in_parts
FROM orders o
JOIN campaigns c ON c.ref = o.campaign
WHERE o."user" = $1 AND o.state LIKE $2 AND o.granted_at <= $3
  AND (o.granted_at < $4
    OR o.campaign < (SELECT ref FROM campaigns WHERE id = $5)
    OR o.campaign = (SELECT ref FROM campaigns WHERE id = $6) AND o.number < $7)
ORDER BY o.granted_at DESC, o.campaign DESC, o.number DESC
LIMIT $8
