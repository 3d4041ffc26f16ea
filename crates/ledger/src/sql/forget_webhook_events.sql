DELETE FROM webhook_events WHERE at < $1 AND place <= coalesce(
    (SELECT min(w.place) FROM webhooks w WHERE w.disabled_at IS NULL), 9223372036854775807
)
