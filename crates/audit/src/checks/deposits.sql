-- Each deposit has one posting, from outside to a user, and each such posting one deposit.
SELECT deposits FROM temp.totals;

SELECT format('deposit %s (posting -1/%d) is missing or wrong', t.id, t.posting)
FROM deposits t
LEFT JOIN postings p ON p.source = -1 AND p.seq = t.posting
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE (p.kind, p.campaign, p.number, d.owner, d.purpose, k.purpose)
      IS NOT ('deposit', NULL, NULL, 'outside', 'outside', 'user')
UNION ALL
SELECT format('posting -1/%d belongs to %d deposits', p.seq, count(t.id))
FROM postings p
LEFT JOIN deposits t ON t.posting = p.seq
WHERE p.source = -1 AND p.kind = 'deposit'
GROUP BY p.seq
HAVING count(t.id) <> 1;
