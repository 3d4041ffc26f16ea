SELECT id
FROM campaigns
WHERE kind = 'red_packet' AND phase IN ('scheduled', 'paused', 'ended') AND granted = supply
LIMIT $1
