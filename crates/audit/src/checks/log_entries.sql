-- Every entry has a known kind, an existing campaign, and the fields that its kind needs.
SELECT entries FROM temp.totals;

SELECT format('entry %d of campaign #%d (%s) is not sound', l.seq, l.campaign, coalesce(l.kind, 'unknown kind'))
FROM temp.log l
LEFT JOIN campaigns c ON c.ref = l.campaign
WHERE c.ref IS NULL
   OR l.kind IS NULL
   OR l.kind = 'granted' AND (l.number IS NULL OR l.user IS NULL OR coalesce(l.quantity, 0) < 1 OR l.amount IS NULL
                              OR l.amount < 0 OR c.kind = 'red_packet' AND (l.quantity <> 1 OR l.amount < 1))
   OR l.kind IN ('paid', 'cancelled', 'expired', 'reinstated', 'refund_due', 'returned', 'part_cancelled',
                 'hold_extended')
      AND (l.number IS NULL OR l.user IS NULL OR c.kind <> 'sale')
   OR l.kind IN ('paid', 'reinstated', 'refund_due') AND l.note IS NULL
   -- The entry's own amount, because `l.amount` may be that of the grant.
   OR l.kind IN ('paid', 'reinstated', 'refund_due') AND EXISTS (
       SELECT 1 FROM events e
       WHERE e.seq = l.seq AND ((instr(l.note, ' ') > 0) <> (e.amount IS NOT NULL) OR e.amount < 1)
   )
   -- The entry's own quantity, because `l.quantity` may be that of the grant. A partial return has a key as well.
   OR l.kind = 'returned' AND EXISTS (
       SELECT 1 FROM events e
       WHERE e.seq = l.seq AND ((e.quantity IS NULL) <> (l.note IS NULL) OR e.quantity < 1 OR instr(l.note, ' ') > 0)
   )
   OR l.kind = 'part_cancelled' AND (coalesce(l.quantity, 0) < 1 OR l.note IS NULL OR instr(l.note, ' ') > 0)
   OR l.kind = 'stock_changed' AND (coalesce(l.amount, 0) = 0 OR c.kind <> 'sale')
   OR l.kind = 'terms_changed' AND (coalesce(l.quantity, 0) < 1 OR coalesce(l.amount, -1) < 0 OR l.note IS NULL
                                    OR c.kind <> 'sale')
   OR l.kind = 'change_made' AND coalesce(length(l.note), 0) <> 36
   OR l.kind = 'closed' AND (coalesce(l.quantity, -1) < 0 OR coalesce(l.amount, -1) < 0);
