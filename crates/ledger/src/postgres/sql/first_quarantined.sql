SELECT campaign, min(seq)
FROM set_aside
WHERE partition = $1 AND campaign = ANY ($2)
GROUP BY campaign
