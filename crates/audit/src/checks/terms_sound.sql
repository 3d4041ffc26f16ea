-- The terms of a sale are those of its last change, and the ledger has all earlier terms, including those of the
-- creation. It has no terms rows of a packet, or of a sale with unchanged terms.
SELECT campaigns FROM temp.totals;

SELECT format('campaign #%d has not the terms of revision %d', c.ref, c.terms_revision)
FROM campaigns c
LEFT JOIN sale_terms t ON t.campaign = c.ref AND t.revision = c.terms_revision
WHERE c.terms_revision <> 0
  AND (t.campaign IS NULL OR c.kind <> 'sale'
       OR (t.starts_at, t.ends_at, t.per_user_limit, t.unit_price, t.admission)
          IS NOT (c.starts_at, c.ends_at, c.per_user_limit, c.unit_price, c.admission)
       OR NOT EXISTS (SELECT 1 FROM sale_terms f WHERE f.campaign = c.ref AND f.revision = 0))
UNION ALL
SELECT format('campaign #%d has terms of revision %d, and its revision is %d', t.campaign, t.revision, c.terms_revision)
FROM sale_terms t
LEFT JOIN campaigns c ON c.ref = t.campaign
WHERE c.ref IS NULL OR c.terms_revision = 0 OR t.revision > c.terms_revision
   OR t.starts_at >= t.ends_at OR t.per_user_limit < 1 OR t.unit_price < 0;
