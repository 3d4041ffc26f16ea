SELECT c.parts, p.phase
FROM campaigns c
LEFT JOIN parts p ON p.campaign = c.ref AND p.`partition` = ?
WHERE c.ref = ?
