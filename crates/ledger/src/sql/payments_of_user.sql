-- The sums hide the index of times: it has the payments of all users.
WHERE o."user" = $1 AND y.outcome LIKE $2 AND y.at + 0 >= $3 AND y.at + 0 <= $4
  AND (y.at + 0, y.campaign, y.number, y.payment)
    < ($5, coalesce((SELECT ref FROM campaigns WHERE id = $6), 0), $7, $8)
ORDER BY y.at + 0 DESC, y.campaign DESC, y.number DESC, y.payment DESC
LIMIT $9
