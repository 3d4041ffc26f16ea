DELETE FROM webhook_retries WHERE (webhook, place) IN (/*rows , */(?, ?)/*end*/)
