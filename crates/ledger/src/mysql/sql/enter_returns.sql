INSERT INTO order_returns (campaign, number, `key`, quantity, amount, at)
VALUES /*rows , */(?, ?, ?, ?, ?, ?)/*end*/
