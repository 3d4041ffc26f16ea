SELECT p.amount, p.at, a.owner, a.currency, c.id, p.number, k.owner
FROM payouts t
JOIN postings p ON p.source = -1 AND p.seq = t.posting
JOIN accounts a ON a.id = p.debit
JOIN accounts k ON k.id = p.credit
LEFT JOIN campaigns c ON c.ref = p.campaign
WHERE t.kind = $1 AND t.reference = $2
