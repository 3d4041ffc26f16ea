-- The terms of a sale are those of its settled entries.
SELECT count(*) FROM temp.terms WHERE since > 0;

SELECT format('campaign #%d: entry %d is settled, and the ledger has other terms of it', l.campaign, l.since)
FROM temp.terms l
LEFT JOIN sale_terms t ON t.campaign = l.campaign AND t.revision = l.since
WHERE l.since > 0 AND (SELECT settled FROM temp.log e WHERE e.campaign = l.campaign AND e.seq = l.since)
  AND (t.starts_at, t.ends_at, t.per_user_limit, t.unit_price, t.admission)
      IS NOT (l.starts_at, l.ends_at, l.per_user_limit, l.unit_price, l.admission)
UNION ALL
SELECT format('campaign #%d: terms of revision %d follow from no settled entry', t.campaign, t.revision)
FROM sale_terms t
WHERE t.revision > 0
  AND NOT EXISTS (SELECT 1 FROM temp.log e
                  WHERE e.campaign = t.campaign AND e.seq = t.revision AND e.kind = 'terms_changed' AND e.settled);
