-- Each payout has one posting to outside. A refund comes from the buyer's refunds due, a withdrawal from the user's
-- account, and a reversal from the deposit's user. A reversed refund has its refund's posting backwards, later. The
-- reversals of a deposit sum to at most the deposit, and exactly to it if one took the remainder. Each such posting has
-- one payout. A transfer moves money from one user's account to another's.
SELECT payouts FROM temp.totals;

SELECT format('%s %s (posting -1/%d) is missing or wrong', t.kind, t.reference, t.posting)
FROM payouts t
LEFT JOIN postings p ON p.source = -1 AND p.seq = t.posting
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
LEFT JOIN deposits b ON t.kind = 'reversal' AND b.id = substr(t.reference, 1, instr(t.reference || '/', '/') - 1)
LEFT JOIN postings made ON made.source = -1 AND made.seq = b.posting
WHERE t.kind NOT IN ('refund_reversal', 'transfer')
  AND ((p.kind, p.amount, p.campaign, p.number, d.purpose, k.owner, k.purpose)
       IS NOT (t.kind, t.amount, t.campaign, t.number,
               CASE t.kind WHEN 'refund_paid' THEN 'refunds_due' ELSE 'user' END, 'outside', 'outside')
       OR t.kind = 'reversal' AND (p.debit, p.credit) IS NOT (made.credit, made.debit)
       OR (t.kind = 'refund_paid') <> (t.campaign IS NOT NULL AND t.number IS NOT NULL))
UNION ALL
SELECT format('the reversal of refund %s (posting -1/%d) is missing or wrong', t.reference, t.posting)
FROM payouts t
LEFT JOIN postings p ON p.source = -1 AND p.seq = t.posting
LEFT JOIN payouts r ON r.kind = 'refund_paid' AND r.reference = t.reference
LEFT JOIN postings paid ON paid.source = -1 AND paid.seq = r.posting
WHERE t.kind = 'refund_reversal'
  AND (r.posting IS NULL OR paid.seq IS NULL OR paid.seq >= p.seq
       OR (t.campaign, t.number, t.amount) IS NOT (r.campaign, r.number, r.amount)
       OR (p.kind, p.amount, p.campaign, p.number, p.debit, p.credit)
          IS NOT (t.kind, paid.amount, paid.campaign, paid.number, paid.credit, paid.debit))
UNION ALL
SELECT format('transfer %s (posting -1/%d) is missing or wrong', t.reference, t.posting)
FROM payouts t
LEFT JOIN postings p ON p.source = -1 AND p.seq = t.posting
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE t.kind = 'transfer'
  AND ((p.kind, p.amount, p.campaign, p.number, d.purpose, k.purpose)
       IS NOT (t.kind, t.amount, NULL, NULL, 'user', 'user')
       OR d.owner IS k.owner OR t.campaign IS NOT NULL OR t.number IS NOT NULL)
UNION ALL
SELECT format('%d minor units of deposit %s were reversed, and it is %d', r.reversed, r.deposit, p.amount)
FROM (
    SELECT substr(reference, 1, instr(reference || '/', '/') - 1) AS deposit, sum(amount) AS reversed,
           max(instr(reference, '/') = 0) AS is_whole
    FROM payouts
    WHERE kind = 'reversal'
    GROUP BY 1
) r
JOIN deposits d ON d.id = r.deposit
JOIN postings p ON p.source = -1 AND p.seq = d.posting
WHERE r.reversed > p.amount OR r.is_whole AND r.reversed <> p.amount
UNION ALL
SELECT format('posting -1/%d belongs to %d payouts', p.seq, count(t.posting))
FROM postings p
LEFT JOIN payouts t ON t.posting = p.seq
WHERE p.source = -1 AND p.kind IN ('refund_paid', 'withdrawal', 'reversal', 'refund_reversal', 'transfer')
GROUP BY p.seq
HAVING count(t.posting) <> 1;
