SELECT p.number, p.payment, p.outcome
FROM payments p
JOIN campaigns c ON c.ref = p.campaign
WHERE c.id = ? AND p.number > ? AND p.number <= ?
ORDER BY p.number
