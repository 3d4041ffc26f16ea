-- Postings without an entry are numbered from 1 without gaps. They are deposits, fundings, residues and payouts. A
-- residue goes from the escrow of a closed packet to its sender.
SELECT direct FROM temp.totals;

SELECT format('posting -1/%d follows posting -1/%d', seq, before)
FROM (SELECT seq, lag(seq, 1, 0) OVER (ORDER BY seq) AS before FROM postings WHERE source = -1)
WHERE seq <> before + 1
UNION ALL
SELECT format('posting -1/%d is a %s', p.seq, p.kind)
FROM postings p
LEFT JOIN campaigns c ON c.ref = p.campaign
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE p.source = -1
  AND (p.kind NOT IN ('deposit', 'fund', 'residue', 'refund_paid', 'withdrawal', 'reversal', 'refund_reversal',
                      'transfer')
       OR p.kind = 'residue'
          AND (c.phase IS NOT 'closed'
               OR (d.owner, d.purpose) IS NOT (c.id, 'escrow')
               OR (k.owner, k.purpose) IS NOT (c.owner, 'user')));
