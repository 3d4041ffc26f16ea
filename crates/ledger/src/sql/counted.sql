SELECT c.ref, CASE c.parts WHEN 1 THEN c.granted ELSE p.granted END, CASE c.parts WHEN 1 THEN c.phase ELSE p.phase END
FROM campaigns c
LEFT JOIN parts p ON p.campaign = c.ref AND p."partition" = $1
WHERE c.id = $2
