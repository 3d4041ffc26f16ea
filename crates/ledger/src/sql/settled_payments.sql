SELECT p.number, p.payment, p.outcome, p.amount, p.currency
FROM payments p
JOIN campaigns c ON c.ref = p.campaign
WHERE c.id = $1 AND p.number > $2 AND p.number <= $3
ORDER BY p.number
