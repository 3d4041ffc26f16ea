SELECT c.ref, c.id, c.kind, c.owner, c.currency, c.per_user_limit, c.hold_ms, c.parts, c.phase, p.phase
FROM campaigns c
LEFT JOIN parts p ON p.campaign = c.ref AND p.partition = $1
WHERE c.id = ANY ($2)
