-- A refund counts even if its posting is missing. Its currency is then null, which stands for the campaign's.
SELECT outcome, amount, currency FROM payments WHERE campaign = $1 AND number = $2
UNION ALL
SELECT t.kind, t.amount, a.currency
FROM payouts t
LEFT JOIN postings p ON p.source = -1 AND p.seq = t.posting
LEFT JOIN accounts a ON a.id = p.debit
WHERE t.campaign = $3 AND t.number = $4
