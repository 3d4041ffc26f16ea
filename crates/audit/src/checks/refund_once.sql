-- A closed packet's remainder is refunded to its sender exactly once. Nothing else is refunded.
SELECT packets FROM temp.totals;

SELECT format('campaign #%d: the refund of %d (entry %d) is missing or wrong', l.campaign, l.amount, l.seq)
FROM temp.phases f
CROSS JOIN temp.log l ON l.campaign = f.campaign AND l.seq = f.since
JOIN campaigns c ON c.ref = l.campaign
LEFT JOIN postings p ON p.source = 0 AND p.seq = l.seq
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE f.phase = 'closed' AND l.settled AND l.amount > 0
  AND ((p.kind, p.amount, p.campaign, p.number, p.at) IS NOT ('refund', l.amount, l.campaign, NULL, l.at)
       OR (d.owner, d.purpose, d.currency) IS NOT (c.id, 'escrow', c.currency)
       OR (k.owner, k.purpose, k.currency) IS NOT (c.owner, 'user', c.currency))
UNION ALL
SELECT format('campaign #%s has %d refunds in the ledger, and %d settled closes of a packet with a rest',
              r.campaign, r.refunds, coalesce(t.closes, 0))
FROM (SELECT campaign, count(*) AS refunds FROM postings WHERE kind = 'refund' GROUP BY campaign) r
LEFT JOIN (
    SELECT t.campaign, t.settled_closes AS closes
    FROM temp.tallies t
    JOIN campaigns c ON c.ref = t.campaign
    WHERE c.kind = 'red_packet' AND t.settled_refunded > 0
) t ON t.campaign = r.campaign
WHERE r.refunds <> coalesce(t.closes, 0) OR r.refunds > 1;
