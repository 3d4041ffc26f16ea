WHERE y.payment = $1
ORDER BY y.at DESC, y.campaign DESC, y.number DESC
