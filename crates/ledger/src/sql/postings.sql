SELECT p.source, p.seq, p.kind, p.amount, p.at, c.id, p.number, coalesce(d.id, t.reference, y.payment)
FROM postings p
LEFT JOIN campaigns c ON c.ref = p.campaign
LEFT JOIN deposits d ON p.source = -1 AND p.kind = 'deposit' AND d.posting = p.seq
LEFT JOIN payouts t ON p.source = -1 AND t.posting = p.seq
  AND p.kind IN ('refund_paid', 'withdrawal', 'reversal', 'refund_reversal', 'transfer')
LEFT JOIN payments y ON p.kind = 'payment' AND y.campaign = p.campaign AND y.number = p.number
  AND y.outcome <> 'refund_due'
