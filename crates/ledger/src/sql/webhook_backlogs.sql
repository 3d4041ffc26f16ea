SELECT webhook, count(*), min(retry_at) FROM webhook_retries GROUP BY webhook
