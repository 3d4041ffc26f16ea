-- No entry is set aside: each is something that an engine has decided, and people may have been told, and the books do
-- not have it. What else follows from that is no breach of its own: the other checks reckon with what is set aside.
SELECT count(*) FROM set_aside;

SELECT format('partition %d: entry %d (%s, campaign %s) %s', partition, seq, coalesce(told, 'not an entry'), campaign,
              CASE WHEN waits_for IS NULL THEN 'was refused: ' || reason
                   ELSE format('waits for entry %d', waits_for) END)
FROM (SELECT * FROM temp.aside ORDER BY waits_for IS NOT NULL, partition, seq);
