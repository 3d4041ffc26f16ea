INSERT INTO campaigns (id, kind, owner, title, currency, ack, starts_at, ends_at, created_at, supply, per_user_limit,
                       total, split_rule, split_min, split_max, split_version, seed, commitment,
                       server_seed, client_seed, unit_price, hold_ms, requirements, admission, payment_policy,
                       payment_tolerance, updated_at, phase)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
        $22, $23, $24, $25, $26, $27, 'draft')
RETURNING ref
