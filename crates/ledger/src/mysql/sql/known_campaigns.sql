SELECT c.ref, c.id, c.kind, c.owner, c.currency,
       CAST(c.per_user_limit = 1 AND c.terms_revision = 0 AS SIGNED), c.hold_ms, c.parts, c.phase, p.phase,
       CAST(EXISTS (
           SELECT 1 FROM webhooks w
           WHERE (w.owner IS NULL OR w.owner = c.owner) AND (w.campaigns = '' OR instr(w.campaigns, c.id) > 0)
       ) AS SIGNED)
FROM campaigns c FORCE INDEX (campaigns_id)
LEFT JOIN parts p ON p.campaign = c.ref AND p.`partition` = ?
WHERE c.id IN (/*rows , */?/*end*/)
