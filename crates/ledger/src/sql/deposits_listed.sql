SELECT p.at, p.seq, p.amount, a.owner, a.currency, d.id, d.reference, c.id, p.number, NULL
FROM postings p
JOIN accounts a ON a.id = p.credit
JOIN deposits d ON d.posting = p.seq
LEFT JOIN campaigns c ON c.ref = p.campaign
WHERE p.source = -1
