SELECT p.at, p.seq, p.amount, a.owner, a.currency, NULL, t.reference, c.id, p.number, v.amount
FROM (
    -- The page first: a join may read all of them.
    SELECT source, seq, at, amount, debit, campaign, number FROM postings
    WHERE listed = $1 AND at >= $2 AND at <= $3 AND (at < $4 OR seq < $5)
    ORDER BY at DESC, source DESC, seq DESC
    LIMIT $6
) p
JOIN accounts a ON a.id = p.debit
JOIN payouts t ON t.posting = p.seq
LEFT JOIN payouts v ON t.kind = 'refund_paid' AND v.kind = 'refund_reversal' AND v.reference = t.reference
LEFT JOIN campaigns c ON c.ref = p.campaign
WHERE p.source = -1
