DELETE FROM webhook_retries
WHERE webhook = $1 AND place > (SELECT w.place FROM webhooks w WHERE w.id = $2)
