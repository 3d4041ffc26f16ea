SELECT ref, id, kind, owner, title, currency, ack, starts_at, ends_at, created_at, supply, per_user_limit, total,
       split_rule, split_min, split_max, split_version, seed, server_seed, client_seed, unit_price, hold_ms,
       requirements, admission, payment_policy, payment_tolerance, phase, granted, returned, refunded, terms_revision,
       coalesce((SELECT t.starts_at FROM sale_terms t WHERE t.campaign = campaigns.ref AND t.revision = 0), starts_at),
       product_id, description, image_url, gallery, list_price, cover, archived_at, updated_at
FROM campaigns
LEFT JOIN details ON details.campaign = campaigns.ref
