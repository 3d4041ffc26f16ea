-- A campaign's last update is at or after its last settled entry about phase, stock or terms, as far as the log is not
-- archived.
SELECT count(*) FROM temp.log
WHERE settled AND kind IN ('paused', 'resumed', 'ended', 'closed', 'stock_changed', 'terms_changed');

SELECT format('campaign #%d was last changed at %d, and entry %d of %d changed it', c.ref, c.updated_at, max(l.seq),
              max(l.at))
FROM campaigns c
JOIN temp.log l ON l.campaign = c.ref
WHERE l.settled AND l.kind IN ('paused', 'resumed', 'ended', 'closed', 'stock_changed', 'terms_changed')
  AND l.seq > (SELECT coalesce(max(last), 0) FROM archives)
GROUP BY c.ref
HAVING max(l.at) > c.updated_at;
