UPDATE parts
SET phase = coalesce($1, phase), granted = granted + $2, returned = returned + $3, refunded = refunded + $4
WHERE campaign = $5 AND "partition" = $6
