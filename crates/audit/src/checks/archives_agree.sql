-- Entries that are archived and still in the file are the same in both.
SELECT count(*) FROM main.events WHERE seq <= (SELECT max(last) FROM archives);

SELECT format('entry %d is another one in its archive', e.seq)
FROM main.events e
LEFT JOIN temp.archived a ON a.seq = e.seq
WHERE e.seq <= (SELECT max(last) FROM archives)
  AND NOT (a.seq IS NOT NULL AND a.at IS e.at AND a.campaign IS e.campaign AND a.kind IS e.kind
           AND a.number IS e.number AND a.user IS e.user AND a.quantity IS e.quantity AND a.amount IS e.amount
           AND a.note IS e.note);
