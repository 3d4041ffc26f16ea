INSERT INTO withheld ("partition", epoch, campaign, units, amount)
VALUES ($1, $2, $3, $4, $5)
