-- Every settled partial cancellation and return has its row, and there are no other rows.
SELECT orders FROM temp.totals;

SELECT format('campaign #%d: the part %s of order %d (entry %d) is missing or wrong', s.campaign, s.key, s.number,
              s.seq)
FROM temp.steps s
LEFT JOIN order_returns r ON r.campaign = s.campaign AND r.number = s.number AND r.key = s.key
WHERE s.key IS NOT NULL AND s.settled
  AND (r.quantity, r.amount, r.at, r.kind)
      IS NOT (s.units, s.amount, s.at, CASE s.kind WHEN 'returned' THEN 'return' ELSE 'cancellation' END)
UNION ALL
SELECT format('campaign #%d: the part %s of order %d is no settled entry', r.campaign, r.key, r.number)
FROM order_returns r
WHERE NOT EXISTS (
    SELECT 1 FROM temp.steps s
    WHERE s.campaign = r.campaign AND s.number = r.number AND s.key = r.key AND s.settled
);
