INSERT INTO details (campaign)
SELECT c.ref
FROM campaigns c
WHERE c.id = $1
  AND NOT EXISTS (SELECT 1 FROM details d WHERE d.campaign = c.ref)
