SELECT p.amount, p.at, a.owner, a.currency, d.reference
FROM deposits d
JOIN postings p ON p.source = -1 AND p.seq = d.posting
JOIN accounts a ON a.id = p.credit
WHERE d.id = $1
