SELECT c.parts, p.phase, p.returned, p.refunded
FROM campaigns c
LEFT JOIN parts p ON p.campaign = c.ref AND p."partition" = $1
WHERE c.ref = $2
