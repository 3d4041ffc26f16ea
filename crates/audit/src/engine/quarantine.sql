-- Quarantined entries that are not discarded count as in flight: the engine has applied them, and the ledger has not.
INSERT OR IGNORE INTO temp.flight
SELECT partition, seq, campaign, kind,
       CASE WHEN kind NOT IN ('closed', 'opened', 'terms_changed', 'change_made')
                 AND kind NOT LIKE 'transfer%' THEN number END,
       CASE kind WHEN 'granted' THEN quantity WHEN 'stock_changed' THEN quantity WHEN 'returned' THEN quantity
                 WHEN 'part_cancelled' THEN quantity
                 WHEN 'closed' THEN number END
FROM temp.aside
WHERE kind IS NOT NULL AND discard < 2;
