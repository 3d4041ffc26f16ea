UPDATE campaigns
SET starts_at = coalesce($1, starts_at), ends_at = coalesce($2, ends_at), per_user_limit = coalesce($3, per_user_limit),
    unit_price = coalesce($4, unit_price), admission = coalesce($5, admission)
WHERE ref = $6
