SELECT ref, id, kind, owner, title, currency, ack, starts_at, ends_at, created_at, supply, per_user_limit, total,
       split_rule, split_min, split_max, split_version, seed, unit_price, hold_ms, requirements, phase, granted,
       returned, refunded, terms_revision
FROM campaigns
WHERE phase = 'draft'
ORDER BY ref
