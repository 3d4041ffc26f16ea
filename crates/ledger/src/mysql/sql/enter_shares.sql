INSERT INTO shares (campaign, number, amount)
VALUES /*rows , */(?, ?, ?)/*end*/
