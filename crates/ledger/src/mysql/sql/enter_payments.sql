INSERT INTO payments (campaign, number, payment, outcome, amount, at, currency)
VALUES /*rows , */(?, ?, ?, ?, ?, ?, ?)/*end*/
