UPDATE (/*rows UNION ALL */SELECT CAST(? AS SIGNED) AS id, CAST(? AS SIGNED) AS amount/*end*/) m
STRAIGHT_JOIN accounts a FORCE INDEX (PRIMARY) ON a.id = m.id
SET a.balance = a.balance + m.amount
