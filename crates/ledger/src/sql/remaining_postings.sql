SELECT p.number, p.kind, p.amount, a.currency, p.at
FROM postings p
LEFT JOIN accounts a ON a.id = p.credit
WHERE p.campaign = $1 AND p.number BETWEEN $2 AND $3 AND p.kind IN ('grant', 'payment', 'refund_due', 'return')
