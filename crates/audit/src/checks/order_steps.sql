-- held → paid | cancelled | expired, expired → paid by reinstatement, and paid → returned. A refund of a payment is due
-- only if the payment pays nothing, or the sale does not accept its money. Such money pays nothing. The price is never
-- recorded as other money. No step of an order precedes its grant, and no hold ends early. An order is paid until its
-- last unit is returned. It returns at most its units. Units are only cancelled of a held order, which keeps at least
-- one. The price of what is left is recorded as money. Units are restocked only once per key. A hold is extended only
-- once, of a held order, by at most the hold of the sale.
SELECT steps FROM temp.totals;

SELECT format('campaign #%d: entry %d says %s of order %d, which was %s', s.campaign, s.seq, s.kind, s.number,
              CASE s.before % 8 WHEN 1 THEN 'paid' WHEN 2 THEN 'cancelled' WHEN 3 THEN 'expired' WHEN 4 THEN 'returned'
                               ELSE 'held' END)
FROM (
    SELECT campaign, number, seq, at, kind, amount, currency, accepted, units, left, cut,
           max(seq * 8 + CASE kind WHEN 'paid' THEN 1 WHEN 'reinstated' THEN 1 WHEN 'cancelled' THEN 2
                                   WHEN 'expired' THEN 3
                                   WHEN 'returned' THEN CASE WHEN left > 0 THEN 1 ELSE 4 END END)
               OVER (PARTITION BY campaign, number ORDER BY seq
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before,
           sum(CASE kind WHEN 'hold_extended' THEN amount ELSE 0 END)
               OVER (PARTITION BY campaign, number ORDER BY seq
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS longer
    FROM temp.steps
) s
LEFT JOIN temp.grants g ON g.campaign = s.campaign AND g.number = s.number
LEFT JOIN campaigns c ON c.ref = s.campaign
WHERE g.seq IS NULL
   OR g.seq > s.seq
   OR s.kind IN ('paid', 'cancelled', 'expired', 'part_cancelled', 'hold_extended') AND s.before IS NOT NULL
   OR s.kind = 'part_cancelled' AND (coalesce(s.units, 0) < 1 OR coalesce(s.left, 0) < 1)
   OR s.kind IN ('paid', 'reinstated', 'refund_due') AND s.cut > 0 AND s.currency IS NULL
   OR s.kind = 'reinstated' AND s.before % 8 IS NOT 3
   OR s.kind = 'returned' AND (s.before % 8 IS NOT 1 OR coalesce(s.units, 0) < 1 OR coalesce(s.left, -1) < 0)
   OR s.kind = 'refund_due' AND s.before IS NULL AND (s.currency IS NULL OR s.accepted)
   OR s.kind IN ('paid', 'reinstated') AND s.currency IS NOT NULL AND NOT s.accepted
   OR s.cut = 0 AND s.currency = c.currency AND s.amount = g.amount
   OR s.kind = 'hold_extended' AND (s.longer > 0 OR coalesce(s.amount, 0) NOT BETWEEN 1 AND c.hold_ms)
   OR s.kind = 'expired' AND s.at < g.at + c.hold_ms + coalesce(s.longer, 0)
UNION ALL
SELECT format('campaign #%d: order %d gave units back %d times under the key %s', campaign, number, count(*), key)
FROM temp.steps
WHERE key IS NOT NULL
GROUP BY campaign, number, key
HAVING count(*) > 1;
