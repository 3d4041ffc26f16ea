SELECT p.at, p.seq, p.amount, a.owner, a.currency, NULL, t.reference, c.id, p.number, v.amount
FROM postings p
JOIN accounts a ON a.id = p.debit
JOIN payouts t ON t.posting = p.seq
LEFT JOIN payouts v ON t.kind = 'refund_paid' AND v.kind = 'refund_reversal' AND v.reference = t.reference
LEFT JOIN campaigns c ON c.ref = p.campaign
WHERE p.source = -1
