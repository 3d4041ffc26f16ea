INSERT INTO payouts (kind, reference, posting, campaign, number, amount) VALUES ($1, $2, $3, $4, $5, $6)
