-- Each packet's total was moved from its sender into its escrow by one posting. Nothing else was funded.
SELECT packets FROM temp.totals;

WITH fundings AS (
    SELECT campaign, count(*) AS fundings FROM postings WHERE source = -1 AND kind = 'fund' GROUP BY campaign
)
SELECT format('campaign #%d has %d fundings', c.ref, coalesce(f.fundings, 0))
FROM campaigns c
LEFT JOIN fundings f ON f.campaign = c.ref
WHERE coalesce(f.fundings, 0) <> (c.kind = 'red_packet')
UNION ALL
SELECT format('posting -1/%d funds no packet as it should', p.seq)
FROM postings p
LEFT JOIN campaigns c ON c.ref = p.campaign
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE p.source = -1 AND p.kind = 'fund'
  AND (p.amount IS NOT c.total
       OR (d.owner, d.purpose, d.currency) IS NOT (c.owner, 'user', c.currency)
       OR (k.owner, k.purpose, k.currency) IS NOT (c.id, 'escrow', c.currency));
