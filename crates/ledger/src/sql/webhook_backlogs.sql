SELECT w.id, w.managed_by, (SELECT count(*) FROM webhook_retries r WHERE r.webhook = w.id),
       (SELECT min(r.retry_at) FROM webhook_retries r WHERE r.webhook = w.id)
FROM webhooks w
