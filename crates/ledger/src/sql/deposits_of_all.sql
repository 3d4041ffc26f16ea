SELECT p.at, p.seq, p.amount, a.owner, a.currency, d.id, d.reference, c.id, p.number, NULL
FROM (
    -- The page first: a join may read all of them.
    SELECT source, seq, at, amount, credit, campaign, number FROM postings
    WHERE listed = $1 AND at >= $2 AND at <= $3 AND (at < $4 OR seq < $5)
    ORDER BY at DESC, source DESC, seq DESC
    LIMIT $6
) p
JOIN accounts a ON a.id = p.credit
JOIN deposits d ON d.posting = p.seq
LEFT JOIN campaigns c ON c.ref = p.campaign
WHERE p.source = -1
