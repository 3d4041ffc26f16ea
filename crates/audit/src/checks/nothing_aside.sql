-- No entry is quarantined. A quarantined entry is a decision of an engine, perhaps answered to a user, that the ledger
-- lacks. The other checks take quarantined entries into account, so they report no further breach for them.
SELECT count(*) FROM set_aside WHERE discard < 2;

SELECT format('partition %d: entry %d (%s, campaign %s) %s', partition, seq, coalesce(told, 'not an entry'), campaign,
              CASE WHEN waits_for IS NULL THEN 'was refused: ' || reason
                   ELSE format('waits for entry %d', waits_for) END)
FROM (SELECT * FROM temp.aside WHERE discard < 2 ORDER BY waits_for IS NOT NULL, partition, seq);
