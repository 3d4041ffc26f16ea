INSERT INTO webhooks (id, url, secret, types, campaigns, owner, managed_by, created_at, place)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, (SELECT last_place FROM webhook_places))
