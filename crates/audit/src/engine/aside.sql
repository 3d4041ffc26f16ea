-- What is set aside, as if it were in flight: the engine has done it, and the books have not.
INSERT OR IGNORE INTO temp.flight
SELECT partition, seq, campaign, kind,
       CASE WHEN kind NOT IN ('closed', 'opened') THEN number END,
       CASE kind WHEN 'granted' THEN quantity WHEN 'closed' THEN number END
FROM temp.aside
WHERE kind IS NOT NULL;
