-- The first part of a sale has the ledger's terms, unless a change is in flight or quarantined. No part has different
-- terms under the same revision.
SELECT count(*) FROM temp.engine_parts WHERE revision > 0;

SELECT format('campaign #%d in partition %d: the engine has terms of revision %d, the ledger of %d', c.ref, e.partition,
              e.revision, c.terms_revision)
FROM temp.engine_parts e
JOIN campaigns c ON c.id = e.campaign
WHERE c.kind = 'sale'
  AND (e.revision = c.terms_revision
           AND (e.starts_at, e.ends_at, e.per_user_limit, e.unit_price, e.admission)
               IS NOT (c.starts_at, c.ends_at, c.per_user_limit, c.unit_price, c.admission)
       OR e.is_first AND e.revision < c.terms_revision
       OR e.revision > c.terms_revision
           AND NOT EXISTS (SELECT 1 FROM temp.flight f WHERE f.campaign = e.campaign AND f.kind = 'terms_changed'));
