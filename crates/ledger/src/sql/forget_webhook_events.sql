DELETE FROM webhook_events
WHERE at < $1
  AND place < $2 + (SELECT f.place FROM (SELECT min(e.place) AS place FROM webhook_events e) f)
  AND place <= coalesce(
      (SELECT min(w.place) FROM webhooks w WHERE w.disabled_at IS NULL), 9223372036854775807
  )
  AND place < coalesce(
      (SELECT min(r.place) FROM webhook_retries r JOIN webhooks w ON w.id = r.webhook WHERE w.disabled_at IS NULL),
      9223372036854775807
  )
