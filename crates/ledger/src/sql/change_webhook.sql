UPDATE webhooks SET url = coalesce($1, url), types = coalesce($2, types), campaigns = coalesce($3, campaigns),
                    owner = CASE WHEN $4 = 1 THEN $5 ELSE owner END,
                    disabled_at = CASE WHEN $6 = 1 THEN coalesce(disabled_at, $7) ELSE disabled_at END,
                    holder = NULL, held_until = NULL
WHERE id = $8
