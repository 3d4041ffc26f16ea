-- A posting with a log position follows from the settled entry at that position, or from a payment for a discarded
-- order.
SELECT postings - direct FROM temp.totals;

SELECT format('posting %d/%d (%s) follows from no settled entry', p.source, p.seq, p.kind)
FROM postings p
LEFT JOIN events e ON e.seq = p.seq
WHERE p.source <> -1
  AND (p.source <> 0
       OR e.seq IS NULL
       OR e.seq > (SELECT coalesce(max(seq), 0) FROM settled WHERE partition = 0)
       OR e.seq IN (SELECT seq FROM temp.aside WHERE partition = 0)
          AND NOT EXISTS (SELECT 1 FROM temp.owed w WHERE w.partition = 0 AND w.seq = p.seq)
       OR NOT CASE WHEN e.seq IN (SELECT seq FROM temp.owed WHERE partition = 0) THEN p.kind = 'refund_due'
       ELSE CASE e.kind
           WHEN 1 THEN p.kind = 'grant' AND e.campaign IN (SELECT ref FROM campaigns WHERE kind = 'red_packet')
           WHEN 2 THEN p.kind = 'payment'
           WHEN 5 THEN p.kind = 'payment'
           WHEN 6 THEN p.kind = 'refund_due'
           WHEN 10 THEN p.kind = 'refund'
           WHEN 16 THEN p.kind = 'return'
           ELSE 0
       END END);
