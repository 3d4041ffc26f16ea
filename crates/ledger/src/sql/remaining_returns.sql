SELECT number, quantity, amount, at FROM order_returns
WHERE campaign = $1 AND number BETWEEN $2 AND $3 AND kind = 'return'
