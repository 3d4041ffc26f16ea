INSERT IGNORE INTO sale_terms (campaign, revision, at, starts_at, ends_at, per_user_limit, unit_price, admission)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
