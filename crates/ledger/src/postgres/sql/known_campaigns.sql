SELECT c.ref, c.id, c.kind, c.owner, c.currency,
       CASE WHEN c.per_user_limit = 1 AND c.terms_revision = 0 THEN 1::bigint ELSE 0::bigint END,
       c.hold_ms, c.parts, c.phase, p.phase,
       CASE WHEN EXISTS (
           SELECT 1 FROM webhooks w
           WHERE (w.owner IS NULL OR w.owner = c.owner) AND (w.campaigns = '' OR strpos(w.campaigns, c.id) > 0)
       ) THEN 1::bigint ELSE 0::bigint END
FROM campaigns c
LEFT JOIN parts p ON p.campaign = c.ref AND p.partition = $1
WHERE c.id = ANY ($2)
