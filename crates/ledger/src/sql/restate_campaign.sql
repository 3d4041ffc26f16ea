UPDATE campaigns
SET phase = coalesce($1, phase), supply = coalesce($2, supply), hold_ms = coalesce($3, hold_ms),
    ack = coalesce($4, ack), updated_at = greatest(updated_at, $5)
WHERE ref = $6
