UPDATE campaigns
SET updated_at = greatest(coalesce(updated_at, created_at),
                          (SELECT d.archived_at FROM details d WHERE d.campaign = campaigns.ref))
WHERE id = $1
