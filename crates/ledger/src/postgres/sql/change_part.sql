UPDATE parts
SET phase = coalesce($3, phase), granted = granted + $4, returned = returned + $5, refunded = refunded + $6
WHERE campaign = $1 AND partition = $2
