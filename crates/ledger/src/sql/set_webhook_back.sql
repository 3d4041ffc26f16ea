UPDATE webhooks SET place = (
    SELECT CASE WHEN min(e.place) <= webhooks.place THEN min(e.place) - 1 ELSE webhooks.place END
    FROM webhook_events e WHERE e.at >= $1
) WHERE id = $2
