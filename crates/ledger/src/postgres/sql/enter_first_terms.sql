INSERT INTO sale_terms (campaign, revision, at, starts_at, ends_at, per_user_limit, unit_price, admission)
SELECT ref, 0, created_at, starts_at, ends_at, per_user_limit, unit_price, admission
FROM campaigns
WHERE ref = $1 AND terms_revision = 0
ON CONFLICT DO NOTHING
