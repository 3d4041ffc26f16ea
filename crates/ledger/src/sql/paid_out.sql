SELECT p.amount, p.at, a.owner, a.currency, c.id, p.number
FROM payouts t
JOIN postings p ON p.source = -1 AND p.seq = t.posting
JOIN accounts a ON a.id = p.debit
LEFT JOIN campaigns c ON c.ref = p.campaign
WHERE t.kind = $1 AND t.reference = $2
