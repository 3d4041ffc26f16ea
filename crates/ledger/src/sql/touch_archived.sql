UPDATE campaigns
SET updated_at = greatest(updated_at,
                          (SELECT d.archived_at FROM details d WHERE d.campaign = campaigns.ref))
WHERE id = $1
