INSERT INTO orders (campaign, number, user, quantity, amount, state, one_per_user, granted_at, hold_until, updated_at,
                    `key`, returned_in_parts, cancelled_in_parts, extension_ms)
VALUES /*rows , */(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
