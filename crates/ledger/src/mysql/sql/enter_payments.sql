INSERT INTO payments (campaign, number, payment, outcome, amount, at)
VALUES /*rows , */(?, ?, ?, ?, ?, ?)/*end*/
