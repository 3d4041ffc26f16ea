INSERT INTO webhooks (id, url, secret, types, campaigns, owner, created_at, place)
VALUES ($1, $2, $3, $4, $5, $6, $7, (SELECT last_place FROM webhook_places))
