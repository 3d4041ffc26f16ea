UPDATE accounts a
JOIN (/*rows UNION ALL */SELECT CAST(? AS SIGNED) AS id, CAST(? AS SIGNED) AS amount/*end*/) m ON a.id = m.id
SET a.balance = a.balance + m.amount
