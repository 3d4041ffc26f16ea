SELECT id
FROM campaigns
WHERE kind = 'red_packet' AND phase IN ('scheduled', 'paused', 'ended') AND granted = supply
    AND ref > COALESCE((SELECT seen.ref FROM campaigns AS seen WHERE seen.id = $1), 0)
ORDER BY ref
LIMIT $2
