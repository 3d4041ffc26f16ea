UPDATE accounts a
SET balance = a.balance + m.amount
FROM unnest($1::bigint[], $2::bigint[]) AS m (id, amount)
WHERE a.id = m.id
