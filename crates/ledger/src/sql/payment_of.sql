WHERE y.payment = $1
ORDER BY y.at, y.campaign, y.number
LIMIT 1
