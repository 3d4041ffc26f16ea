SELECT number, payment, at FROM payments
WHERE campaign = $1 AND number BETWEEN $2 AND $3
