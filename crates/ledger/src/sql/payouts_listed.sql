SELECT p.at, p.seq, p.amount, a.owner, a.currency, NULL, t.reference, c.id, p.number
FROM postings p
JOIN accounts a ON a.id = p.debit
JOIN payouts t ON t.posting = p.seq
LEFT JOIN campaigns c ON c.ref = p.campaign
WHERE p.source = -1
