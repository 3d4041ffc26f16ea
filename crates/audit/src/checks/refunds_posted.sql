-- The recorded refund of a packet, or of each part, has one posting from its escrow to its sender. The posting follows
-- from that partition's log. Nothing else was refunded.
SELECT packets FROM temp.totals;

SELECT format('campaign #%d refunded %d, and %d postings say %d', c.ref, c.refunded, count(p.seq),
              coalesce(sum(p.amount), 0))
FROM campaigns c
LEFT JOIN temp.posted p ON p.campaign = c.ref AND p.kind = 'refund'
GROUP BY c.ref
HAVING coalesce(sum(p.amount), 0) <> c.refunded OR c.parts = 1 AND count(p.seq) > 1
UNION ALL
SELECT format('campaign #%d: its part in partition %d refunded %d, and %d postings say %d', t.campaign, t.partition,
              t.refunded, count(p.seq), coalesce(sum(p.amount), 0))
FROM parts t
LEFT JOIN temp.posted p ON p.campaign = t.campaign AND p.source = t.partition AND p.kind = 'refund'
GROUP BY t.campaign, t.partition
HAVING coalesce(sum(p.amount), 0) <> t.refunded OR count(p.seq) > 1
UNION ALL
SELECT format('posting %d/%d refunds campaign #%d as it should not', p.source, p.seq, p.campaign)
FROM temp.posted p
LEFT JOIN campaigns c ON c.ref = p.campaign
WHERE p.kind = 'refund'
  AND (c.kind, p.number, p.currency, p.debtor, p.debited, p.creditor, p.credited)
      IS NOT ('red_packet', NULL, c.currency, c.id, 'escrow', c.owner, 'user');
