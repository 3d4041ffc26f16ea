SELECT id, url, secret, previous_secret, previous_until, types, campaigns, owner, created_at, place, failing_since,
       attempts, retry_at, last_error, disabled_at, (SELECT last_place FROM webhook_places)
FROM webhooks
