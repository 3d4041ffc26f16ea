-- An order's state is that of its last settled step, and `held` without one. A return or a cancellation that leaves
-- units is no such step.
SELECT orders FROM temp.totals;

SELECT format('campaign #%d: order %d is %s, and the log says %s',
              o.campaign, o.number, o.state, coalesce(s.kind, 'held'))
FROM orders o
LEFT JOIN temp.steps s
    ON s.campaign = o.campaign AND s.number = o.number
   AND s.seq = (SELECT max(seq) FROM temp.steps l
                WHERE l.campaign = o.campaign AND l.number = o.number AND l.settled AND l.kind <> 'refund_due'
                  AND coalesce(l.left, 0) <= 0)
WHERE o.state IS NOT CASE s.kind WHEN 'reinstated' THEN 'paid' ELSE coalesce(s.kind, 'held') END
   OR o.updated_at IS NOT coalesce(s.at, o.granted_at);
