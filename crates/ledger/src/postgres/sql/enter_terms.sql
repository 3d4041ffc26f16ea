INSERT INTO sale_terms (campaign, revision, at, starts_at, ends_at, per_user_limit, unit_price, admission)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING
