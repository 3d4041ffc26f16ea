-- Every settled grant of a sale has its order, and there are no other orders. Orders that an old version settled
-- without keys have none.
SELECT orders FROM temp.totals;

SELECT format('campaign #%d: order %d is not as entry %d granted it', g.campaign, g.number, g.seq)
FROM campaigns c
CROSS JOIN temp.grants g ON g.campaign = c.ref
LEFT JOIN orders o ON o.campaign = g.campaign AND o.number = g.number
WHERE c.kind = 'sale' AND g.settled
  AND (o.user, o.quantity + o.cancelled_in_parts, o.amount, o.granted_at, o.hold_until, o.one_per_user)
      IS NOT (g.user, g.quantity,
              -- Cancelled units have lowered the price.
              CASE o.cancelled_in_parts WHEN 0 THEN g.amount ELSE g.amount / max(g.quantity, 1) * o.quantity END,
              g.at,
              g.at + c.hold_ms
              + coalesce((SELECT sum(s.amount) FROM temp.steps s
                          WHERE s.campaign = g.campaign AND s.number = g.number AND s.kind = 'hold_extended'
                            AND s.settled), 0),
              CASE c.terms_revision WHEN 0 THEN c.per_user_limit = 1 ELSE o.one_per_user END)
UNION ALL
SELECT format('campaign #%d: order %d has another key than entry %d', o.campaign, o.number, e.seq)
FROM orders o
JOIN temp.grants g ON g.campaign = o.campaign AND g.number = o.number
JOIN events e ON e.seq = g.seq
WHERE o.key IS NOT NULL AND o.key IS NOT e.note
UNION ALL
SELECT format('campaign #%d: order %d was granted by no settled entry', o.campaign, o.number)
FROM orders o
LEFT JOIN temp.grants g ON g.campaign = o.campaign AND g.number = o.number AND g.settled
LEFT JOIN campaigns c ON c.ref = o.campaign
WHERE g.seq IS NULL OR c.kind IS NOT 'sale';
